"""A pull request that commits what a program made is refused: it would run instead of the sources that people read."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from config.load import DIRECTORY_VARIABLE
from ops.commands.whole import app
from ops.review import review
from ops.review.checkouts import tracked
from ops.review.checkouts.cdk import ReviewError
from rehearsal.paths import REPOSITORY
from tests.unit.ops.review.checkouts import Checkout

# Python runs bytecode in __pycache__ without a look at its source if its header says "unchecked" (PEP 552), bytecode
# beside which there is no source (PEP 3147), and a compiled extension before the source of its name. Entry points of an
# .egg-info at the root start plugins. CDK uploads a folder of lifecycle scripts whole.
MADE = (
    "stacks/ray/__pycache__/stack.cpython-311.pyc",
    "stacks/extra.pyc",
    "yaml.pyc",
    "config/__PyCache__/naming.cpython-312.PYC",
    "stacks/ray/stack.cpython-312-x86_64-linux-gnu.so",
    "handlers/hyperpod_cluster/index.pyd",
    "handlers/hyperpod_cluster/old.pyo",
    "lifecycle_scripts/eks/cdk.out/on_create_main.sh",
    "cdk.out/manifest.json",
    "ray_on_hyperpod.egg-info/entry_points.txt",
    "node_modules/aws-cdk/lib/index.js",
    ".venv/bin/python",
    ".venv-jobs/bin/python",
    "packages/ray-resume/.mypy_cache/x.json",
    "docs/__pycache__/parts.cpython-311.pyc",
    "a name\n with lines/__pycache__/x.pyc",
)
SOURCES = ("stacks/ray/stack.py", "docs/cdk.out.md", "config/pycache.py", ".github/workflows/ci.yml", "venv.md")


def git(root: Path, *arguments: str) -> None:
    argv = ["git", "-C", str(root), *arguments]
    subprocess.run(argv, check=True, capture_output=True)


def commit(root: Path, *paths: str) -> None:
    """Track the files; git ignores most of them unless it is forced."""
    if not (root / ".git").exists():
        root.mkdir(exist_ok=True)
        git(root, "init", "-q")
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    git(root, "add", "-f", "--", *paths)


@pytest.fixture
def base(tmp_path: Path) -> Checkout:
    checkout = Checkout(tmp_path / "base")
    checkout.environment("dev", network={})
    return checkout


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    # The command's own checkout is a default argument.
    monkeypatch.setattr(review.review, "__defaults__", (tmp_path / "head", None))
    checkout = Checkout(tmp_path / "head")
    checkout.environment("dev", network={})
    return checkout


@pytest.mark.parametrize("path", MADE, ids=ascii)
def test_a_tracked_build_output_is_refused(head: Checkout, path: str) -> None:
    commit(head.root, *SOURCES)
    tracked.require_sources(head.root)
    commit(head.root, path)
    with pytest.raises(ReviewError, match="git tracks files that a program made"):
        tracked.require_sources(head.root)


def test_review_and_gate_refuse_it_before_they_run_anything(base: Checkout, head: Checkout) -> None:
    commit(head.root, "environments/dev.yaml", "lifecycle_scripts/eks/cdk.out/on.sh", "stacks/__pycache__/a.pyc")
    message = (
        f"error: {head.root}: git tracks files that a program made: lifecycle_scripts/eks/cdk.out/on.sh, "
        "stacks/__pycache__/a.pyc. Programs may run them instead of the sources that people review. Allowed: sources. "
        "Fix: run `git rm --cached lifecycle_scripts/eks/cdk.out/on.sh stacks/__pycache__/a.pyc`\n"
    )
    for argv in (["review", str(base.root)], ["gate", str(base.root), "--head", str(head.root)]):
        result = CliRunner().invoke(app, argv)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.endswith(message)
    assert not (head.root / "cdk.out").exists()


def test_a_pull_request_may_remove_what_its_base_tracks(base: Checkout, head: Checkout) -> None:
    commit(base.root, "environments/dev.yaml", "stacks/__pycache__/a.pyc")
    commit(head.root, "environments/dev.yaml")
    assert CliRunner().invoke(app, ["review", str(base.root)]).exit_code == 0


def test_make_check_refuses_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ops.review.checkouts.tracked"]
    own = next(line for line in (REPOSITORY / "Makefile").read_text().splitlines() if line.endswith(" ".join(argv[1:])))
    assert own.startswith("\t@$(RUN) $(VENV)/python")

    def check() -> subprocess.CompletedProcess[str]:
        env = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/local/bin:/usr/bin:/bin", DIRECTORY_VARIABLE: ""}
        return subprocess.run(argv, cwd=tmp_path, env=env, text=True, capture_output=True, check=False)

    commit(tmp_path, *SOURCES)
    assert (check().returncode, check().stderr) == (0, "")
    commit(tmp_path, "stacks/__pycache__/a.pyc")
    assert check().returncode == 1
    assert check().stderr.startswith(
        f"check: {tmp_path}: git tracks files that a program made: stacks/__pycache__/a.pyc."
    )


def test_a_checkout_that_git_cannot_read_is_an_error_and_a_folder_without_git_is_none(tmp_path: Path) -> None:
    assert tracked.files(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: /nowhere")
    with pytest.raises(ReviewError, match="git cannot list its files"):
        tracked.files(tmp_path)


def test_a_copy_that_another_repository_ignores_is_no_checkout_of_it(tmp_path: Path) -> None:
    commit(tmp_path, "app.py")
    (tmp_path / "copy").mkdir()
    assert tracked.files(tmp_path / "copy") is None


def test_a_hook_of_git_names_no_other_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(tmp_path / "one", "one.py")
    commit(tmp_path / "two", "two.py")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "one" / ".git"))
    assert tracked.files(tmp_path / "two") == ["two.py"]
