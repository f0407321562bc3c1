"""Fetch the pinned Helm charts into the cache. A chart that does not match the lock never enters it."""

import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from config.facts import charts_lock
from config.facts.charts_lock import Archive, ChartError, GitFolder
from ops.mirror import artefacts, crane
from ops.mirror.errors import MirrorError
from ops.render.git_folder import TIMEOUT_SECONDS, GitFolderError, check_out, mirrored, not_fetched

__all__ = ["ChartError", "fetch"]


def fetch(mirror: str | None = None) -> Iterator[str]:
    """Download every chart that is missing or altered in the cache; yield a line for each chart.

    `mirror` replaces the scheme and host of each URL; `oci://REGISTRY` is where `ops mirror` put the charts. Raises
    ChartError if a host cannot be reached, or if a download's digest differs from the lock's.
    """
    cached = charts_lock.cache_directory()
    cached.mkdir(parents=True, exist_ok=True)
    for chart in charts_lock.locked():
        if isinstance(chart, GitFolder):
            for dependency in chart.dependencies:
                yield _fetch(dependency, cached, mirror)
        yield _fetch(chart, cached, mirror)


def _fetch(chart: Archive | GitFolder, cached: Path, mirror: str | None) -> str:
    try:
        charts_lock.verify(chart, cached)
    except ChartError:
        with tempfile.TemporaryDirectory(dir=cached) as scratch:
            fetched = Path(scratch) / chart.file_name
            if mirror and mirror.startswith(artefacts.OCI_PREFIX):
                _pull(chart, fetched, mirror.removeprefix(artefacts.OCI_PREFIX).rstrip("/"))
            elif isinstance(chart, Archive):
                _download(chart, fetched, mirror)
            else:
                _check_out(chart, fetched, mirror)
            found = charts_lock.digest(chart, fetched)
            if found != chart.digest:
                message = f"the fetched chart is {found}. Allowed: {chart.digest}. Fix: fetch it elsewhere (--mirror)"
                raise ChartError(chart.name, message) from None
            _replace(fetched, cached / chart.file_name)
        return f"{chart.name} {chart.version}: fetched and verified{_dropped(chart)}"
    return f"{chart.name} {chart.version}: in the cache, verified{_dropped(chart)}"


def _dropped(chart: Archive | GitFolder) -> str:
    if isinstance(chart, Archive):
        return ""
    dropped = [*chart.dropped_dependencies, *(f"charts/{name}" for name in chart.dropped_archives)]
    return f"; packed without {', '.join(dropped)}" if dropped else ""


def _download(chart: Archive, target: Path, mirror: str | None) -> None:
    url = mirrored(chart.url, mirror)
    try:
        # The scheme is https, or that of the user's own mirror.
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            target.write_bytes(response.read())
    except (OSError, ValueError) as error:
        # `reason` of an HTTPError is the host's answer, of any other URLError the network's error.
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ChartError(chart.name, not_fetched(url, str(reason))) from None


def _check_out(chart: GitFolder, target: Path, mirror: str | None) -> None:
    try:
        check_out(chart, target, mirror)
    except GitFolderError as error:
        raise ChartError(chart.name, str(error)) from None


def _pull(chart: Archive | GitFolder, target: Path, registry: str) -> None:
    try:
        artefacts.read(crane.Crane(crane.ensure()), chart, registry, target)
    except MirrorError as error:
        raise ChartError(chart.name, str(error)) from None


def _replace(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    source.replace(target)
