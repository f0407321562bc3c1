"""A machine that cannot play the job's story says so in one sentence, before anything is built or started."""

from pathlib import Path

import pytest

from embedded_account.machine.processes import ProcessError
from rehearsal.job.machine import require_machine
from rehearsal.paths import ray_environment

PROGRAMS = ("ip", "nsenter", "unshare", "wget")


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with programs that succeed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (*PROGRAMS, "ray"):
        write(folder / name, "exit 0")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_machine_with_everything_will_do(bin_folder: Path) -> None:
    require_machine(bin_folder.parent)


@pytest.mark.parametrize("program", PROGRAMS)
def test_missing_program_is_named(bin_folder: Path, program: str) -> None:
    (bin_folder / program).unlink()
    with pytest.raises(ProcessError, match=rf"needs {program}\. Fix: install iproute2, util-linux and wget"):
        require_machine(bin_folder.parent)


def test_missing_ray_names_the_command_that_installs_it(bin_folder: Path) -> None:
    (bin_folder / "ray").unlink()
    with pytest.raises(ProcessError, match=r"there is no Ray in .*\. Fix: `make setup-jobs`"):
        require_machine(bin_folder.parent)


@pytest.mark.parametrize(
    ("row", "command"), [("walkthrough", "make setup-jobs"), ("fixed", "make setup-jobs ROW=fixed")]
)
@pytest.mark.usefixtures("bin_folder")
def test_missing_ray_of_a_set_names_the_set(
    row: str, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rehearsal.paths.REPOSITORY", tmp_path)
    with pytest.raises(ProcessError, match=rf"Fix: `{command}`$"):
        require_machine(ray_environment(row))


def test_refused_namespaces_name_the_setting(bin_folder: Path) -> None:
    write(bin_folder / "unshare", "echo 'unshare: write failed: Operation not permitted' >&2; exit 1")
    with pytest.raises(ProcessError, match=r"refuses \(unshare: write failed.*sysctl kernel\.apparmor"):
        require_machine(bin_folder.parent)
