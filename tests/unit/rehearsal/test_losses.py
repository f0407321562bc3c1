"""`make lose`: what is refused before anything is lost."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rehearsal import losses
from rehearsal.__main__ import app
from rehearsal.paths import REPOSITORY
from rehearsal.run import access


def lose(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["lose", *words])
    return done.exit_code, done.output


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(losses, "run_directory", lambda name: tmp_path / name)
    monkeypatch.setattr("rehearsal.runs.directories", lambda: sorted(tmp_path.iterdir()))
    return tmp_path


def test_without_a_part_the_parts_are_listed() -> None:
    code, shown = lose()
    assert code == 0
    assert [line.split()[0] for line in shown.splitlines()] == list(losses.LOSSES)


@pytest.mark.parametrize("module", ["rehearsal.losses", "rehearsal.run.rehearse", "ops.commands.whole"])
def test_what_starts_often_starts_no_node(module: str) -> None:
    """What imports cdk8s or CDK starts Node, which takes seconds."""
    code = f"import sys, {module}; sys.exit('jsii' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0


def test_an_unknown_part_names_those_that_can_be_lost() -> None:
    assert lose("rain") == (
        2,
        "error: WHAT: 'rain' is invalid: it cannot be lost. Allowed: node, head, disk, capacity, nothing\n",
    )


@pytest.mark.parametrize("ended", [False, True])
def test_without_a_kept_rehearsal_the_command_that_makes_one_is_named(runs: Path, *, ended: bool) -> None:
    """The folder of a rehearsal stays when its processes have ended."""
    if ended:
        (runs / "small").mkdir()
        (runs / "small" / access.ACCOUNT).touch()
    assert lose("node", "--env", "small") == (
        2,
        "error: no rehearsal of small is kept. Fix: run `make rehearse KEEP=1 ENV=small`\n",
    )


def test_another_kept_rehearsal_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs / "trial").mkdir()
    (runs / "trial" / access.ACCOUNT).touch()
    monkeypatch.setattr(losses, "living", lambda _: {1: "account"})
    assert lose("node", "--env", "small") == (2, "error: no rehearsal of small is kept. Fix: add ENV=trial\n")


def test_slurm_has_no_raycluster_to_lose() -> None:
    code, shown = lose("node", "--env", "slurm")
    assert code == 2
    assert "'slurm' is invalid here: it has no `eks`" in shown
