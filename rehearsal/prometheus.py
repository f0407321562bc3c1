"""Debian's Prometheus and promtool in the rehearsals' cache: downloaded by apt, unpacked without root."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from rehearsal.paths import CACHE

PACKAGE: Final = "prometheus"
_PROGRAMS: Final = ("prometheus", "promtool")
_TIMEOUT: Final = 300


class UnavailableError(Exception):
    """The package cannot be had on this machine; the text says why."""


def ensure(cache: Path = CACHE / "apt" / PACKAGE) -> dict[str, Path]:
    """Return the paths of `prometheus` and `promtool`; download the package if the cache lacks it.

    apt verifies the package by the distribution's signatures. Raises UnavailableError.
    """
    found = {name: cache / "usr" / "bin" / name for name in _PROGRAMS}
    if all(path.is_file() for path in found.values()):
        return found
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as scratch:
        here = Path(scratch)
        _run("apt-get", "download", PACKAGE, folder=here)
        archives = list(here.glob("*.deb"))
        if len(archives) != 1:
            raise UnavailableError(f"apt-get downloaded {len(archives)} packages. Allowed: one. Fix: rerun")
        _run("dpkg-deb", "--extract", str(archives[0]), "unpacked", folder=here)
        unpacked = here / "unpacked"
        # Another process may have been faster.
        if not cache.exists():
            unpacked.rename(cache)
    return found


def _run(*argv: str, folder: Path) -> None:
    if shutil.which(argv[0]) is None:
        raise UnavailableError(f"{argv[0]} is not installed. Fix: use a machine with apt and dpkg")
    variables = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        argv, cwd=folder, env=variables, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    if done.returncode:
        reason = done.stderr.strip()
        raise UnavailableError(f"{argv[0]} has failed. Fix: run `apt-get update`, then rerun: {reason}")
