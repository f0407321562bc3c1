"""Debian's Prometheus and Alertmanager in the rehearsals' cache: downloaded by apt, unpacked without root."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from rehearsal import debian
from rehearsal.paths import CACHE

PROMETHEUS: Final = "prometheus"
ALERTMANAGER: Final = "prometheus-alertmanager"
_PROGRAMS: Final = {PROMETHEUS: (PROMETHEUS, "promtool"), ALERTMANAGER: (ALERTMANAGER, "amtool")}


class UnavailableError(Exception):
    """The package cannot be had on this machine; the text says why."""


def ensure(package: str = PROMETHEUS) -> dict[str, Path]:
    """Return the paths of a package's programs by name; download the package if the cache lacks it.

    Raises UnavailableError.
    """
    cache = CACHE / "apt" / package
    found = {name: cache / "usr" / "bin" / name for name in _PROGRAMS[package]}
    if all(path.is_file() for path in found.values()):
        return found
    if missing := [tool for tool in debian.TOOLS if not shutil.which(tool)]:
        raise UnavailableError(f"{', '.join(missing)} is not installed. Fix: use a machine with apt and dpkg")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as scratch:
        here = Path(scratch)
        if (error := debian.download(here, [package])) is not None:
            raise UnavailableError(f"apt cannot fetch {package}: {error}. Fix: run `apt-get update`, then rerun")
        archives = list(here.glob("*.deb"))
        if len(archives) != 1:
            raise UnavailableError(f"apt-get downloaded {len(archives)} packages. Allowed: one. Fix: rerun")
        unpacked = here / "unpacked"
        debian.unpack(archives, unpacked)
        # Another process may have been faster.
        if not cache.exists():
            unpacked.rename(cache)
    return found
