"""List what stays on the disk when a checkout is clean: what other projects share, and what is slow to create."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from embedded_account.kubernetes.building import golang
from rehearsal import paths


@dataclass(frozen=True)
class Kept:
    """A folder that stays."""

    what: str
    folder: Path
    removal: str
    """The command that removes it."""

    def __str__(self) -> str:
        """Return size, folder, content and removal in one line."""
        return f"{size(self.folder) / 1e6:>8,.0f} MB  {self.folder}  {self.what}; to remove it: {self.removal}"


def kept() -> list[Kept]:
    """Return the existing folders that stay, this checkout's first."""
    return [each for each in (*_of_this_checkout(), *_of_this_user()) if each.folder.is_dir()]


def size(folder: Path) -> int:
    """Return the bytes of disk below a folder; a file with several names counts once."""
    found: dict[tuple[int, int], int] = {}
    for directory, _, files in os.walk(folder):
        for name in files:
            status = os.lstat(Path(directory, name))
            found[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def _of_this_checkout() -> Iterator[Kept]:
    rooted = paths.REPOSITORY
    yield Kept("shared by rehearsals: built programs, unpacked packages", paths.CACHE, f"rm -rf {paths.CACHE}")
    for folder in (*sorted(rooted.glob(".venv*")), rooted / "node_modules"):
        yield Kept("installed by `make setup`", folder, f"rm -rf {folder}")


def _of_this_user() -> Iterator[Kept]:
    go = f"{Path(sys.prefix, 'bin', 'go')} clean"
    caches = golang.caches()
    yield Kept("Go's compiled packages", caches["compiled packages"], f"{go} -cache")
    yield Kept("Go's modules", caches["modules"], f"{go} -modcache")
    uv = str(Path(sys.prefix, "bin", "uv"))
    directory = subprocess.run([uv, "cache", "dir"], check=True, capture_output=True, text=True).stdout.strip()
    yield Kept("Python packages", Path(directory), f"{uv} cache clean")
    npm = Path(os.environ.get("NPM_CONFIG_CACHE", Path.home() / ".npm"))
    yield Kept("Node packages", npm, f"rm -rf {npm}")
    jsii = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "aws" / "jsii"
    yield Kept("the CDK's packages, unpacked", jsii, f"rm -rf {jsii}")
