"""The environments that `ops review` treats as unchanged: a change of any input must be detected."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ops.review.checkouts.inputs import changed, fingerprint
from tests.unit.ops.review.test_tracked import commit

LIFECYCLE = "hyperpod:\n  instance_groups:\n    - name: workers\n      lifecycle_scripts: {folder}\n"


def write(checkout: Path, path: str, text: str) -> Path:
    file = checkout / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Return two equal checkouts with environments a and b."""
    for side in ("base", "head"):
        for path in (
            "app.py",
            "cdk.json",
            "stacks/ray/stack.py",
            "config/facts/versions.py",
            "lifecycle_scripts/eks/on_create.sh",
        ):
            write(tmp_path / side, path, path)
        for name in ("a", "b"):
            write(tmp_path / side, f"environments/{name}.yaml", f"project: {name}\n")
    return tmp_path / "base", tmp_path / "head"


def test_equal_checkouts_have_no_changed_environment(sides: tuple[Path, Path]) -> None:
    assert changed(*sides) == []


def test_an_environments_file_counts_for_that_environment_only(sides: tuple[Path, Path]) -> None:
    write(sides[1], "environments/b.yaml", "project: other\n")
    assert changed(*sides) == ["b"]


def test_approvals_count_for_no_environment(sides: tuple[Path, Path]) -> None:
    write(sides[1], "environments/approvals/b.yaml", "approvals: []\n")
    assert changed(*sides) == []


def test_an_environment_of_head_alone_is_changed_and_one_of_base_alone_is_not_named(sides: tuple[Path, Path]) -> None:
    write(sides[1], "environments/c.yaml", "project: c\n")
    (sides[1] / "environments" / "a.yaml").unlink()
    assert changed(*sides) == ["c"]


SHARED = {
    "the app": "app.py",
    "its settings": "cdk.json",
    "looked-up context": "cdk.context.json",
    "a stack": "stacks/ray/stack.py",
    "a stack's construct": "stacks/ray/new.py",
    "the configuration": "config/facts/versions.py",
    "a table of figures": "config/facts/instance_types.yaml",
    "the pinned charts": "config/facts/charts.lock.yaml",
    "a Kubernetes chart": "k8s_charts/ray/cluster.py",
    "a controller's code": "controllers/reaper.py",
    "a function's code": "handlers/hyperpod_cluster/index.py",
    "lifecycle scripts": "lifecycle_scripts/eks/on_create.sh",
    "the image's context": "ray_image/Dockerfile",
    "Python packages": "requirements.txt",
    "the CDK CLI": "package-lock.json",
    "the set-up": "setup.sh",
    "an environment's neighbour": "environments/schema.json",
    "a folder that nobody has heard of": "new_folder/deep/file",
    "a folder named like a synthesis' output, which CDK uploads": "lifecycle_scripts/eks/cdk.out/on_create_main.sh",
    "a folder named like a tool's cache": "lifecycle_scripts/eks/.ruff_cache/x.sh",
    "bytecode that Python imports without a source": "stacks/extra.pyc",
}


@pytest.mark.parametrize("path", SHARED.values(), ids=SHARED)
def test_a_shared_input_counts_for_all_environments(sides: tuple[Path, Path], path: str) -> None:
    write(sides[1], path, "changed")
    assert changed(*sides) == ["a", "b"]


def remove(checkout: Path) -> None:
    (checkout / "stacks" / "ray" / "stack.py").unlink()


def rename(checkout: Path) -> None:
    (checkout / "stacks" / "ray" / "stack.py").rename(checkout / "stacks" / "rays.py")


def make_executable(checkout: Path) -> None:
    (checkout / "lifecycle_scripts" / "eks" / "on_create.sh").chmod(0o755)


def make_a_link(checkout: Path) -> None:
    file = checkout / "stacks" / "ray" / "stack.py"
    content = file.read_text()
    file.unlink()
    file.symlink_to(write(checkout, "docs/ray.py", content))


def add_a_broken_link(checkout: Path) -> None:
    (checkout / "stacks" / "link").symlink_to("nowhere")


def move_content(checkout: Path) -> None:
    """Swap the contents of two files: the set of names and the total of bytes stay the same."""
    first, second = checkout / "stacks" / "ray" / "stack.py", checkout / "config" / "facts" / "versions.py"
    before = first.read_text()
    first.write_text(second.read_text())
    second.write_text(before)


@pytest.mark.parametrize("change", [remove, rename, make_executable, make_a_link, add_a_broken_link, move_content])
def test_what_happens_to_a_file_counts_like_its_content(
    sides: tuple[Path, Path], change: Callable[[Path], None]
) -> None:
    change(sides[1])
    assert changed(*sides) == ["a", "b"]


def test_the_target_of_a_link_to_a_folder_counts(sides: tuple[Path, Path]) -> None:
    for side in sides:
        write(side, "docs/scripts/on_create.sh", side.name)
        (side / "lifecycle_scripts" / "own").symlink_to("../docs/scripts")
    assert changed(*sides) == ["a", "b"]


def test_a_link_to_a_folder_above_ends(sides: tuple[Path, Path]) -> None:
    for side in sides:
        (side / "stacks" / "loop").symlink_to("..")
    assert changed(*sides) == []


NOT_READ = (
    *("docs/explain/jobs.md", "tests/unit/test.py", "manifests/a/ray.yaml", ".git/index", "README.md"),
    "ops/environment/check.py",
    *("node_modules/aws-cdk/bin/cdk", ".venv/pyvenv.cfg", "stacks/__pycache__/ray.pyc", "cdk.out/manifest.json"),
    *(".mypy_cache/x.json", "packages/ray-resume/.mypy_cache/x.json", ".rehearsal/dev/x"),
)


@pytest.mark.parametrize("path", NOT_READ)
def test_files_that_no_synthesis_reads_do_not_count(sides: tuple[Path, Path], path: str) -> None:
    write(sides[1], path, "changed")
    assert changed(*sides) == []


@pytest.mark.parametrize("folder", ["docs/scripts", "./docs/x/../scripts", "ops/scripts"])
def test_lifecycle_scripts_count_wherever_they_lie(sides: tuple[Path, Path], folder: str) -> None:
    for side in sides:
        write(side, "environments/b.yaml", LIFECYCLE.format(folder=folder))
        (side / "docs" / "x").mkdir(parents=True)
        write(side, f"{folder}/on_create.sh", side.name)
    assert changed(*sides) == ["b"]


@pytest.mark.parametrize("text", ["", "..", "a" * 5000, '"a\\0b"', "/etc"])
def test_a_text_that_is_no_folder_of_the_project_is_left_alone(sides: tuple[Path, Path], text: str) -> None:
    for side in sides:
        write(side, "environments/b.yaml", f"project: {text}\n")
    assert changed(*sides) == []


def test_a_file_that_is_no_yaml_counts_by_its_bytes(sides: tuple[Path, Path]) -> None:
    for side in sides:
        write(side, "environments/b.yaml", "a: [")
    assert changed(*sides) == []
    write(sides[1], "environments/b.yaml", "b: [")
    assert changed(*sides) == ["b"]


REVIEWED = (*SHARED.values(), "environments/a.yaml", "environments/c.yaml", "ops/review/verdict.py", "ops/new.py")


@pytest.mark.parametrize("path", REVIEWED)
def test_fingerprint_covers_what_a_verdict_depends_on(sides: tuple[Path, Path], path: str) -> None:
    assert fingerprint(sides[0]) == fingerprint(sides[1])
    write(sides[1], path, "changed")
    assert fingerprint(sides[0]) != fingerprint(sides[1])


@pytest.mark.parametrize("path", ["docs/page.md", "environments/approvals/a.yaml", "review.json", "review.html"])
def test_fingerprint_does_not_cover_what_no_verdict_depends_on(sides: tuple[Path, Path], path: str) -> None:
    write(sides[1], path, "changed")
    assert fingerprint(sides[0]) == fingerprint(sides[1])
    assert changed(*sides) == []


def test_fingerprint_covers_an_environments_scripts_in_a_folder_that_is_not_read(sides: tuple[Path, Path]) -> None:
    for side in sides:
        write(side, "environments/b.yaml", LIFECYCLE.format(folder="docs/scripts"))
        write(side, "docs/scripts/on_create.sh", side.name)
    assert fingerprint(sides[0]) != fingerprint(sides[1])


@pytest.mark.parametrize("path", ["docs/page.md", "tests/unit/test.py", ".github/workflows/ci.yml", "review.json"])
def test_fingerprint_covers_every_tracked_file(sides: tuple[Path, Path], path: str) -> None:
    for side in sides:
        commit(side, path)
    assert fingerprint(sides[0]) == fingerprint(sides[1])
    write(sides[1], path, "changed")
    assert fingerprint(sides[0]) != fingerprint(sides[1])
    (sides[1] / path).unlink()
    assert fingerprint(sides[0]) != fingerprint(sides[1])


def test_fingerprint_leaves_approvals_to_the_gate(sides: tuple[Path, Path]) -> None:
    for side in sides:
        commit(side, "environments/approvals/a.yaml")
    write(sides[1], "environments/approvals/a.yaml", "approvals: []\n")
    assert fingerprint(sides[0]) == fingerprint(sides[1])
