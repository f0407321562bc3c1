"""A rehearsal in a checkout that cannot be written ends in one message."""

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rehearsal import __main__ as program
from rehearsal import paths, runs

COMMANDS = [
    each.name or each.callback.__name__
    for each in program.app.registered_commands
    # `lose` writes no file; `rights`, `sets` and `versions` start programs, which say it.
    if each.callback and each.callback not in (program.lose, program.rights, program.sets, program.versions)
]
ARGUMENTS = {"drill": ["capacity"], "pack": ["programs.zip"]}
FIX = "Fix: use a checkout that you may write to, on a disk with free space"


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Restore the handler of SIGTERM, which each command replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_names_the_folder_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, command: str, number: int
) -> None:
    real = Path.mkdir

    def mkdir(path: Path, *arguments: Any, **named: Any) -> None:
        if path.is_relative_to(paths.ROOT):
            raise OSError(number, os.strerror(number), str(path))
        real(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(runs, "directories", lambda: [paths.run_directory("dev")])
    result = CliRunner().invoke(program.app, [command, *ARGUMENTS.get(command, [])])
    assert result.exit_code == 2, result.output
    [line] = result.stderr.splitlines()
    assert line.startswith(f"error: {paths.ROOT}")
    assert line.endswith(f": {os.strerror(number)}. {FIX}")


def test_a_full_disk_is_named_without_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised, program._orderly():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert raised.value.exit_code == 2
    reason = "the output or a file of the rehearsal: No space left on device"
    assert capsys.readouterr().err == f"error: {reason}. {FIX}\n"


def test_an_error_about_a_signal_is_not_reported_as_one_about_a_file() -> None:
    with pytest.raises(PermissionError), program._orderly():
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
