"""Fetch Debian's Slurm and munge with apt, and unpack them into the rehearsal's cache: nothing is installed.

apt verifies the signatures of Debian's archive. A locked version must also have the hash in packages.lock.json. The
archive drops a version when a newer revision mends it: then the newer revision of the same Slurm is used, and named.
"""

import functools
import hashlib
import json
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from embedded_account.machine import cache_folders
from embedded_account.machine.processes import ProcessError
from rehearsal import debian
from rehearsal.paths import CACHE

SLURM_CACHE: Final = CACHE / "slurm"
_LOCK: Final = Path(__file__).with_name("packages.lock.json")
_TOOLS: Final = (*debian.TOOLS, "env", "ip", "nsenter", "unshare")
_MACHINE: Final = "x86_64"
_DEBIAN: Final = "Fix: rehearse Slurm on Debian 12"


@dataclass(frozen=True)
class Programs:
    """The unpacked packages."""

    root: Path

    @property
    def libraries(self) -> Path:
        """Return the folder of shared libraries."""
        return self.root / "usr/lib" / f"{_MACHINE}-linux-gnu"

    @property
    def plugins(self) -> Path:
        """Return the folder of Slurm's plugins."""
        return self.libraries / "slurm-wlm"

    def __getitem__(self, daemon: str) -> Path:
        """Return the path of `munged`, `slurmctld`, `slurmd` or `slurmstepd`."""
        return self.root / "usr/sbin" / (daemon if daemon == "munged" else f"{daemon}-wlm")

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables with which the programs and their libraries are found."""
        return {
            "PATH": f"{self.root / 'usr/bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LD_LIBRARY_PATH": f"{self.libraries}:{self.plugins}",
        }

    @functools.cached_property
    def version(self) -> str:
        """Return Slurm's version and the package's, such as `22.05.8 (22.05.8-4+deb12u3)`."""
        done = subprocess.run(
            [self["slurmctld"], "-V"], env=dict(self.environment), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ProcessError(f"slurmctld cannot run: {done.stderr.strip()}. {_DEBIAN}")
        return f"{done.stdout.split()[-1]} ({(self.root / 'revision').read_text()})"


def ensure(cache: Path = SLURM_CACHE, progress: Callable[[str], None] = print) -> Programs:
    """Return the programs, fetched if they are missing. Raises ProcessError with what this machine lacks."""
    require_machine()
    directory = cache / hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:16]
    cache_folders.hold(directory)
    programs = Programs(directory / "root")
    with cache_folders.only_builder(directory, lambda: progress("waiting for another download of Slurm")):
        if not programs.root.is_dir():
            _fetch(programs.root, progress)
            cache_folders.prune(cache, [directory.name])
    return programs


def require_machine() -> None:
    """Raise ProcessError if this machine has no apt, lacks a program, or refuses namespaces."""
    if missing := [tool for tool in _TOOLS if not shutil.which(tool)]:
        raise ProcessError(f"Slurm's rehearsal needs {', '.join(missing)}, which this machine lacks. {_DEBIAN}")
    if platform.machine() != _MACHINE:
        raise ProcessError(
            f"machine {platform.machine()!r} is invalid: the locked packages of Slurm are for another. "
            f"Allowed: {_MACHINE}"
        )
    probe = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"]
    nested = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "true"]
    refused = subprocess.run([*probe, *nested], capture_output=True, text=True, check=False)
    if refused.returncode:
        raise ProcessError(
            f"Slurm's rehearsal needs user namespaces, which this machine refuses ({refused.stderr.strip()}). "
            "Fix: on Ubuntu `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` allows them"
        )


def _fetch(root: Path, progress: Callable[[str], None]) -> None:
    """Download, verify and unpack; the folder gets its name when it is complete."""
    lock = json.loads(_LOCK.read_text())
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".fetch-") as name:
        scratch = Path(name)
        exact = debian.download(scratch, [f"{package}={locked['version']}" for package, locked in lock.items()])
        if exact is not None and (error := debian.download(scratch, lock)) is not None:
            raise ProcessError(
                f"apt cannot fetch Slurm: {error}. Fix: `apt-get update` as root; where Debian's archive is not a "
                "source of packages, rehearse Slurm on Debian 12"
            )
        archives = sorted(scratch.glob("*.deb"))
        for file in archives:
            _verify(file, lock)
        debian.unpack(archives, scratch / "root")
        revision = unquote(next(scratch.glob("slurmctld_*.deb")).stem).split("_")[1]
        (scratch / "root/revision").write_text(revision)
        (scratch / "root").rename(root)
    progress(f"Slurm {revision}: fetched")


def _verify(file: Path, lock: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ProcessError unless the file is the locked package, or a newer revision of the same upstream version."""
    name, version, _ = unquote(file.stem).split("_")
    locked = lock[name]
    if version == locked["version"]:
        if hashlib.sha256(file.read_bytes()).hexdigest() != locked["sha256"]:
            raise ProcessError(f"{name} {version} is invalid: its hash is not the one in {_LOCK.name}. {_DEBIAN}")
    elif version.rpartition("-")[0] != locked["version"].rpartition("-")[0]:
        raise ProcessError(
            f"{name} {version} is invalid: this machine's packages are not Debian 12's. "
            f"Allowed: {locked['version']}. {_DEBIAN}"
        )
