"""Refuse another Python below runs whose training library cannot resume there: their next attempt would fail for good.

Ray Train's own record of a run holds code, which another CPython cannot read. Later libraries then begin a new record.
"""

import io
import re
import zipfile
from collections.abc import Collection, Mapping
from typing import Final

import kubernetes

from config.facts.versions import SETS
from ops.errors import RefusedError
from ops.jobs.packing import LIBRARY
from ops.jobs.runs import Runs

_SINCE: Final = (0, 2)
"""The first version of the library that resumes on another Python."""

_INIT: Final = f"{LIBRARY.name}/__init__.py"
_VERSION: Final = re.compile(rb'^__version__ = "(\d+)\.(\d+)', re.MULTILINE)
_PYTHON: Final = {each.ray: each.python for each in SETS.values()}


def refuse_old_libraries(
    api: kubernetes.client.ApiClient, rays: Mapping[tuple[str, str], str], after: str, environment: str
) -> None:
    """Raise RefusedError if an unfinished run cannot resume with Ray `after`, which has another Python.

    `rays` maps RayClusters (namespace, name) whose pods are replaced to their Ray.
    """
    python = _PYTHON.get(after, "")
    changed = {place for place, ray in rays.items() if _PYTHON.get(ray, python) != python}
    old = [name for namespace in sorted({each for each, _ in changed}) for name in _old(Runs(api, namespace), changed)]
    if old:
        stops = " and ".join(f"`ops job stop {name} --env {environment}`" for name in old)
        raise RefusedError(
            f"run {', '.join(old)} was submitted with an earlier training library, which cannot resume on CPython "
            f"{python}: it would fail for good. Fix: {stops}, which saves; rerun this command; then submit the same "
            "job under the same name with `--again`, which resumes"
        )


def _old(runs: Runs, clusters: Collection[tuple[str, str]]) -> list[str]:
    """Return the names of unfinished runs on these RayClusters whose library is too old. A RayJob keeps its image."""
    return [
        run.name
        for run in runs.supervised()
        if not run.finished
        and (runs.namespace, run.cluster) in clusters
        and any(_is_old(package) for package in runs.packages(run.name))
    ]


def _is_old(package: bytes) -> bool:
    """Return whether a package has a library that is too old; without one, its script resumes by itself."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        if _INIT not in archive.namelist():
            return False
        found = _VERSION.search(archive.read(_INIT))
    return not found or (int(found[1]), int(found[2])) < _SINCE
