"""Write locked Helm charts as OCI artefacts, and read them back.

The layer of an artefact is the chart's archive as Helm expects it (helm.sh: "Registries"). The digest of a published
archive's layer is therefore its sha256 in the lock, whatever registry holds it.
"""

import gzip
import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from backports import tarfile

from config.facts import charts_lock
from config.facts.charts_lock import Archive, ChartError, GitFolder
from ops.mirror.crane import Crane

OCI_PREFIX: Final = "oci://"
_FOLDER: Final = "charts"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def charts() -> Iterator[Archive | GitFolder]:
    """Yield the charts of the lock, which `ops charts fetch` fetches together, and the archives that they contain."""
    for chart in charts_lock.locked():
        yield chart
        yield from chart.dependencies if isinstance(chart, GitFolder) else ()


def reference(chart: Archive | GitFolder, registry: str) -> str:
    """Return the chart's address in a registry; one of a git folder names its commit, too."""
    version = f"{chart.version}-{chart.commit[:12]}" if isinstance(chart, GitFolder) else chart.version
    return f"{registry}/{_FOLDER}/{chart.name.lower()}:{version}"


def write(chart: Archive | GitFolder, layout: Path) -> str:
    """Write the cached chart as an OCI layout and return its digest; the same chart gives the same digest.

    Raises ChartError unless the cache holds the locked chart.
    """
    charts_lock.verify(chart, charts_lock.cache_directory())
    cached = charts_lock.cache_directory() / chart.file_name
    content = cached.read_bytes() if isinstance(chart, Archive) else _packed(cached, chart.name)
    described = {"name": chart.name, "version": chart.version, "apiVersion": "v2"}
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _blob(layout, _CONFIG, _json(described)),
        "layers": [_blob(layout, _LAYER, content)],
    }
    described_manifest = _blob(layout, _MANIFEST, _json(manifest))
    (layout / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    (layout / "index.json").write_bytes(_json({"schemaVersion": 2, "manifests": [described_manifest]}))
    return str(described_manifest["digest"])


def read(crane: Crane, chart: Archive | GitFolder, registry: str, target: Path) -> None:
    """Write the chart of the registry to `target`: an archive, or a folder. The caller verifies its digest.

    Raises MirrorError if the registry does not give it, and ChartError if the artefact is no chart.
    """
    address = reference(chart, registry)
    repository = address.rpartition(":")[0]
    try:
        [layer] = json.loads(crane.manifest(address))["layers"]
        content = crane.blob(f"{repository}@{layer['digest']}")
        if isinstance(chart, Archive):
            target.write_bytes(content)
            return
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(target.with_name("unpacked"), filter="tar")
        (target.with_name("unpacked") / chart.name).rename(target)
    except (KeyError, OSError, ValueError, tarfile.TarError) as error:
        raise ChartError(
            chart.name, f"{address} is no chart: {error}. Fix: mirror it again with `ops mirror`"
        ) from None


def _blob(layout: Path, media_type: str, content: bytes) -> dict[str, Any]:
    """Write a blob of the layout and return its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _packed(folder: Path, name: str) -> bytes:
    """Return a folder as an archive without times, owners and this machine's order of files."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(path, arcname=f"{name}/{path.relative_to(folder)}")
            entry.mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return buffer.getvalue()
