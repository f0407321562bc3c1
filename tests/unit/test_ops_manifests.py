"""`ops manifests` as CI and a person use it; what is rendered is the subject of tests/charts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.__main__ import app
from ops.render import manifests

FILE = Path("dev/ray/account.yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["manifests", "--env", "dev", *arguments])


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One small file in the place of everything, and an empty directory to write to."""
    monkeypatch.setattr(manifests, "render", lambda _: {FILE: "kind: ServiceAccount\n"})
    monkeypatch.setattr(manifests.stale, "__defaults__", (tmp_path,))
    monkeypatch.setattr(manifests.write, "__defaults__", (tmp_path,))
    return tmp_path


def test_check_names_stale_files_writes_nothing_and_exits_with_1(rendered: Path) -> None:
    result = run("--check")
    assert result.exit_code == 1
    assert result.stdout == f"{rendered / FILE} is stale\n"
    assert result.stderr == "error: manifests/ does not match the code: run `ops manifests` and commit what it writes\n"
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
