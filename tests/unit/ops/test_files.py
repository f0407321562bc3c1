"""A full disk or a closed output ends in one message, and leaves each file whole or not there."""

import errno
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ops import files, guard
from ops.commands.whole import app
from ops.environment import new
from tests.support.waiting import PATIENCE_SECONDS

WHOLE = "kept: true\n"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each write of text to a file end as on a full disk, after its first byte."""
    real = Path.open

    class Full:
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            self._stream.close()

        def write(self, text: str) -> None:
            self._stream.write(text[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        flush = write

    def opened(self: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        stream = real(self, mode, *arguments, **named)
        return Full(stream) if set(mode) & set("wx") and "b" not in mode else stream

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.usefixtures("full")
def test_a_full_disk_leaves_no_new_file_and_names_it(tmp_path: Path) -> None:
    file = tmp_path / "trial.yaml"
    with pytest.raises(OSError, match="No space left") as raised:
        files.create(file, WHOLE)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(file))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("full")
def test_a_full_disk_leaves_the_existing_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    with open(file, "w") as stream:  # noqa: PTH123  Path.open is full
        stream.write(WHOLE)
    with pytest.raises(OSError, match="No space left"):
        files.write(file, "other: true\n")
    assert file.read_text() == WHOLE
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text(WHOLE)
    file.chmod(0o640)
    link.symlink_to(file)
    files.write(link, "other\r\n", newline="")
    assert (file.read_bytes(), link.is_symlink()) == (b"other\r\n", True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(tmp_path.iterdir()) == [file, link]


def test_a_device_is_written_and_not_replaced() -> None:
    files.write(Path("/dev/null"), WHOLE)
    assert Path("/dev/null").is_char_device()


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    file = tmp_path / "trial.yaml"
    file.write_text(WHOLE)
    with pytest.raises(FileExistsError):
        files.create(file, "other")
    assert file.read_text() == WHOLE


@pytest.mark.usefixtures("full")
def test_ops_new_on_a_full_disk_says_so_and_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trial.yaml"
    monkeypatch.setattr(new, "target", lambda _: file)
    monkeypatch.setattr(sys, "argv", ["ops", "new", "trial"])
    assert guard.run(app) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {file}: No space left on device. Fix: check the path, ")
    assert len(said.splitlines()) == 1
    assert not file.exists()


OUTPUTS = [
    "--help", "--version", "check", "check -o json", "explain V55", "explain -o yaml", "cost --env dev",
    "policy operator --env dev", "images --env dev", "new --help",
]  # fmt: skip
"""Commands that print without credentials."""
FULL = "error: the output cannot be written: No space left on device. Fix: free space on the disk, or redirect "
CLOSED = "error: standard output is closed. Fix: open it, or redirect it to a file\n"


@pytest.mark.parametrize("words", OUTPUTS)
@pytest.mark.parametrize(("redirection", "message"), [(">/dev/full", FULL), (">&-", CLOSED)], ids=["full", "closed"])
def test_output_that_cannot_be_written_ends_in_one_message(words: str, redirection: str, message: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m ops {words} {redirection}"
    ended = subprocess.run(
        ["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == 2, ended.stderr
    [line] = [line for line in ended.stderr.splitlines(keepends=True) if not line.startswith("warning: ")]
    assert line.startswith(message)


def test_without_output_and_errors_the_exit_code_remains() -> None:
    command = f"{shlex.quote(sys.executable)} -m ops explain V55 >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], check=False, timeout=PATIENCE_SECONDS).returncode == 2
