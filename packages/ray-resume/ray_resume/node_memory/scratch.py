"""Directories on a node's disk for checkpoints on their way to and from memory."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "memory-checkpoint-"
_NAME: Final = re.compile(rf"{_PREFIX}(\d+)-.*")


def make() -> Path:
    """Return a new directory; remove those of processes that were killed, which can be as large as a model."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = _NAME.fullmatch(directory.name)
        if owner and not _lives(int(owner[1])):
            remove(directory)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def remove(directory: Path) -> None:
    """Remove a directory, as far as possible."""
    shutil.rmtree(directory, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
