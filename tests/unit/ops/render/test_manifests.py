"""`ops manifests` and its `--check`; tests/charts tests the rendered objects."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from config.load import DIRECTORY
from ops.commands.whole import app
from ops.render import manifests
from tests.support.generated_environments import read_from

FILE = Path("dev/ray/account.yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["manifests", "--env", "dev", *arguments])


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Render one small file instead of all manifests, and return an empty output directory."""
    monkeypatch.setattr(manifests, "render", lambda _: {FILE: "kind: ServiceAccount\n"})
    monkeypatch.setattr(manifests.stale, "__defaults__", (tmp_path,))
    monkeypatch.setattr(manifests.write, "__defaults__", (tmp_path,))
    monkeypatch.setattr(manifests.abandoned, "__defaults__", (tmp_path,))
    return tmp_path


def test_check_names_stale_files_writes_nothing_and_exits_with_1(rendered: Path) -> None:
    result = run("--check")
    assert result.exit_code == 1
    assert result.stdout == f"{rendered / FILE} is stale\n"
    assert result.stderr == "error: manifests/ is stale. Fix: run `make manifests` and commit what it writes\n"
    assert not (rendered / FILE).exists()


def test_what_was_written_is_not_stale(rendered: Path) -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout == f"{rendered / FILE} written\n"
    assert (rendered / FILE).read_text() == "kind: ServiceAccount\n"
    assert run("--check").exit_code == 0


def test_a_file_that_the_code_does_not_render_is_removed(rendered: Path) -> None:
    run()
    surplus = rendered / "dev" / "gone.yaml"
    surplus.write_text("")
    assert run().stdout == f"{surplus} removed\n"
    assert not surplus.exists()


def test_files_of_a_removed_environment_are_stale_and_removed(
    rendered: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environments = tmp_path_factory.mktemp("environments")
    shutil.copy2(DIRECTORY / "dev.yaml", environments)
    read_from(environments, monkeypatch)
    gone = rendered / "gone" / "ray" / "volume.yaml"
    gone.parent.mkdir(parents=True)
    gone.write_text("")
    run()
    assert gone.exists(), "only dev was rendered"

    result = CliRunner().invoke(app, ["manifests", "--check"])
    assert (result.exit_code, result.stdout) == (1, f"{gone} is stale\n")
    assert gone.exists()
    result = CliRunner().invoke(app, ["manifests"])
    assert (result.exit_code, result.stdout) == (0, f"{gone} removed\n")
    assert not gone.exists()


def test_an_example_is_not_rendered(
    rendered: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    read_from(tmp_path_factory.mktemp("environments"), monkeypatch)
    result = CliRunner().invoke(app, ["manifests", "--env", "closed"])
    assert result.exit_code == 2
    assert (
        "closed is an example: manifests/ holds environments/ only. Fix: `ops new NAME --like closed`" in result.stderr
    )
    assert not list(rendered.iterdir())
