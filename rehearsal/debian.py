"""Download Debian's packages with apt, and unpack them without root: nothing is installed."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

TOOLS: Final = ("apt-get", "dpkg-deb")
_SECONDS: Final = 300


def download(folder: Path, packages: Iterable[str]) -> str | None:
    """Download packages into a folder; return apt's last error, None if all are there.

    apt verifies the packages by the signatures of the distribution's archive.
    """
    argv = [shutil.which("apt-get") or "", "download", *packages]
    variables = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, cwd=folder, env=variables, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end within {_SECONDS} s"
    errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
    return (errors or [done.stderr.strip()])[-1].removeprefix("E: ") if done.returncode else None


def unpack(archives: Iterable[Path], folder: Path) -> None:
    """Unpack packages into a folder, one over the other."""
    folder.mkdir()
    for archive in archives:
        subprocess.run([shutil.which("dpkg-deb") or "", "--extract", archive, folder], check=True)
