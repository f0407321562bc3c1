"""Read the lock of the Helm charts, `charts.lock.yaml`; verify cached charts and unpack them."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from backports import tarfile
from pydantic import BaseModel, ConfigDict, StringConstraints
from ruamel.yaml import YAML

from config.findings import ConfigError

LOCK_FILE: Final = Path(__file__).with_name("charts.lock.yaml")
CACHE_VARIABLE: Final = "RAYHP_CHARTS"
STAND_IN_VARIABLE: Final = "RAYHP_STAND_IN_CHARTS"
"""Names the folder of a kept rehearsal's stand-ins in the shell that inspects it."""

# Only the rehearsal's embedded account has this SSM parameter, so only that account accepts templates with stand-in
# charts. In another account CloudFormation's error shows only the name, which therefore says what to do.
STAND_IN_MARKER: Final = "/ray-on-hyperpod/stand-in-charts-are-for-rehearsals/run-ops-charts-fetch"
STAND_IN_MARKER_VALUE: Final = "stand-in charts are welcome"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
GitId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https://[^\s/]+/\S+$")]


class ChartError(ConfigError):
    """A chart is not in the lock, is not in the cache, or differs from the lock."""

    def __init__(self, chart: str, message: str) -> None:
        super().__init__(f"{LOCK_FILE}: {chart}: {message}")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Archive(_Model):
    """A chart published as an archive."""

    name: str
    version: str
    url: Url
    sha256: Sha256

    @property
    def file_name(self) -> str:
        """Name in the cache."""
        return f"{self.name}-{self.version}.tgz"

    @property
    def digest(self) -> str:
        """The result of `digest()` for the genuine file."""
        return self.sha256


class GitFolder(_Model):
    """A chart that is published only as a folder of a git repository; its dependencies are archives.

    Packing removes `dropped_dependencies` from its Chart.yaml, and `dropped_archives` from its `charts/`. The latter
    are sub-charts that are also folders there: Helm would render either of the two, at random.
    """

    name: str
    version: str
    repository: Url
    commit: GitId
    path: str
    tree: GitId
    dependencies: tuple[Archive, ...] = ()
    dropped_dependencies: tuple[str, ...] = ()
    dropped_archives: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """Name in the cache."""
        return f"{self.name}-{self.commit[:12]}"

    @property
    def digest(self) -> str:
        """The result of `digest()` for the genuine folder."""
        return self.tree


class _Lock(_Model):
    charts: tuple[Archive | GitFolder, ...]


@cache
def locked(lock: Path = LOCK_FILE) -> tuple[Archive | GitFolder, ...]:
    """Return all charts of the lock, some in several versions. Raises ValidationError for a lock of another form."""
    return _Lock.model_validate(_yaml(lock)).charts


def find(name: str, version: str | None = None) -> Archive | GitFolder:
    """Return chart `name` of the lock in `version`, by default its first entry.

    Raises ChartError if the lock has no such chart.
    """
    for chart in locked():
        if chart.name == name and version in (None, chart.version):
            return chart
    there = ", ".join(f"{chart.name} {chart.version}" for chart in locked())
    raise ChartError(" ".join(filter(None, (name, version))), f"is not in the lock. Allowed: {there}")


def cache_directory() -> Path:
    """Return the folder of verified charts: $RAYHP_CHARTS, else ~/.cache/ray-on-hyperpod/charts."""
    configured = os.environ.get(CACHE_VARIABLE)
    return Path(configured) if configured else Path.home() / ".cache" / "ray-on-hyperpod" / "charts"


def unpack(name: str, directory: Path, version: str | None = None) -> Path:
    """Verify chart `name` in the cache again, unpack it below `directory`, and return the chart's folder.

    The same lock gives the same files. Raises ChartError if the chart is missing or was altered.
    """
    chart, cached = find(name, version), cache_directory()
    if isinstance(chart, Archive):
        verify(chart, cached)
        with tarfile.open(cached / chart.file_name) as archive:
            archive.extractall(directory, filter="data")
        return directory / chart.name
    return _pack_folder(chart, directory / chart.name, cached)


def all_cached() -> bool:
    """Return whether the cache holds every chart of the lock, unaltered."""
    return not missing(locked())


def missing(charts: Iterable[Archive | GitFolder]) -> list[Archive | GitFolder]:
    """Return the charts that the cache lacks, or that were altered there."""
    cached = cache_directory()
    return [chart for chart in charts if not _is_cached(chart, cached)]


def _is_cached(chart: Archive | GitFolder, cached: Path) -> bool:
    try:
        verify(chart, cached)
    except ChartError:
        return False
    return True


def verify(chart: Archive | GitFolder, cached: Path) -> None:
    """Raise ChartError unless the cache holds exactly this chart, its dependencies included."""
    path = cached / chart.file_name
    if not path.exists():
        raise ChartError(chart.name, f"{path} does not exist. Fix: `ops charts fetch`")
    found = digest(chart, path)
    if found != chart.digest:
        message = f"{path} was altered: its digest is {found}. Allowed: {chart.digest}. Fix: `ops charts fetch`"
        raise ChartError(chart.name, message)
    for dependency in chart.dependencies if isinstance(chart, GitFolder) else ():
        verify(dependency, cached)


def digest(chart: Archive | GitFolder, path: Path) -> str:
    """Return the identity of the content of `path`: the sha256 of an archive, git's id of a folder."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if isinstance(chart, Archive) else git_tree(path)


def git_tree(directory: Path) -> str:
    """Return git's id of a folder (`git rev-parse COMMIT:PATH`), computed from the files alone."""
    entries = sorted((_tree_entry(path) for path in directory.iterdir()), key=lambda entry: entry[0])
    return _git_object(b"tree", b"".join(entry for _, entry in entries)).hex()


def _tree_entry(path: Path) -> tuple[bytes, bytes]:
    name = os.fsencode(path.name)
    if path.is_symlink():
        mode, identity = b"120000", _git_object(b"blob", os.fsencode(path.readlink()))
    elif path.is_dir():
        mode, identity = b"40000", bytes.fromhex(git_tree(path))
    else:
        mode = b"100755" if path.stat().st_mode & 0o100 else b"100644"
        identity = _git_object(b"blob", path.read_bytes())
    # git sorts a folder as if its name ended in a slash.
    key = name + b"/" if mode == b"40000" else name
    return key, mode + b" " + name + b"\0" + identity


def _git_object(kind: bytes, content: bytes) -> bytes:
    header = kind + b" %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).digest()


def _archives_beside_their_folder(charts: Path) -> list[Path]:
    folders = "|".join(re.escape(each.parent.name) for each in charts.glob("*/Chart.yaml"))
    return [each for each in sorted(charts.glob("*.tgz")) if re.fullmatch(rf"({folders})-v?[0-9].*", each.name)]


def _pack_folder(chart: GitFolder, target: Path, cached: Path) -> Path:
    verify(chart, cached)
    shutil.copytree(cached / chart.file_name, target, symlinks=True)
    description = _yaml(target / "Chart.yaml")
    description["dependencies"] = [
        dependency
        for dependency in description.get("dependencies", [])
        if dependency["name"] not in chart.dropped_dependencies
    ]
    with (target / "Chart.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump(description, file)
    doubled = _archives_beside_their_folder(target / "charts")
    if {each.name for each in doubled} != set(chart.dropped_archives):
        found = ", ".join(each.name for each in doubled) or "none"
        raise ChartError(
            chart.name,
            f"archives beside the folder of the same sub-chart: {found}. "
            f"Fix: list these archives under dropped_archives of the chart in {LOCK_FILE}",
        )
    for archive in doubled:
        archive.unlink()
    for dependency in chart.dependencies:
        shutil.copy(cached / dependency.file_name, target / "charts" / dependency.file_name)
    return target


def _yaml(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text())
