"""The Pythons of this machine that deployed code runs on."""

import functools
import os
import subprocess
from pathlib import Path
from typing import Final

_FIND: Final = Path(__file__).parents[2] / "requirements/jobs_python.sh"


@functools.cache
def cpython(version: str) -> str | None:
    """Return the path of a CPython of a version such as 3.10, from PATH or pyenv; None if there is none."""
    # With CI set, the program does without another version.
    found = subprocess.run(
        [_FIND, version], env={**os.environ, "CI": "true"}, capture_output=True, text=True, check=False
    )
    if found.returncode:
        return None
    # A shim of pyenv works with the PATH of this process only.
    argv = [found.stdout.strip(), "-c", "import sys; print(sys.executable)"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
