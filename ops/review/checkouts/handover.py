"""Hand the assemblies of a checkout over as data: `python -m ops.review.checkouts.handover FOLDER` writes them.

The job that writes runs the code of a pull request. The job that reads has a token, so it trusts nothing in what it
gets: it runs none of it, follows no link, and bounds names, numbers and sizes before it unpacks.
"""

import json
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from rich.console import Console

from config import available
from ops.review import yaml_bounds
from ops.review.checkouts.cdk import ReviewError, synthesise
from ops.review.checkouts.inputs import ENVIRONMENTS
from ops.review.checkouts.progress import ReviewProgress

MAX_ARCHIVE_BYTES: Final = 1 << 30
MAX_UNPACKED_BYTES: Final = 2 << 30
MAX_FILES: Final = 20_000
MAX_DOCUMENT_BYTES: Final = 32 << 20
"""The size of a template; CloudFormation takes 1 MB."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.@+=,~-]{1,128}")
_MAX_NAMES: Final = 20
_TEMPLATE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.template\.json")
_ASSETS: Final = "asset.*"
_CHUNK_BYTES: Final = 1 << 20
_UNREADABLE: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError)


class _Artifact(BaseModel):
    type: str
    properties: dict[str, Any] = {}
    environment: str | None = None
    dependencies: list[str] = []


class _Manifest(BaseModel):
    artifacts: dict[str, _Artifact]


class _Resource(BaseModel):
    Type: str
    Properties: dict[str, Any] = {}
    Metadata: dict[str, Any] = {}


class _Template(BaseModel):
    Resources: dict[str, _Resource] = {}
    Outputs: dict[str, dict[str, Any]] = {}
    Parameters: dict[str, dict[str, Any]] = {}


_Model = TypeVar("_Model", bound=BaseModel)


def write(checkout: Path, folder: Path, console: Console) -> None:
    """Synthesise all environments of the checkout, each into a folder of its name.

    Raises ReviewError for the first environment that does not synthesise.
    """
    with ReviewProgress(console) as progress:
        for name in available(checkout / ENVIRONMENTS):
            with progress.step(f"{name}: synthesising", f"{name}: synthesised"):
                synthesise(checkout, name, folder / name, {})


def read(folder: Path, into: Path, names: Collection[str]) -> Path:
    """Unpack the only file of `folder`, an archive of what `write` wrote, below `into`; return `into`.

    Raises ReviewError if the archive holds anything but the assemblies of environments in `names`.
    """
    archive = _only_file(folder)
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = _entries(opened, archive)
            for parts in entries:
                if parts[0] not in names:
                    raise _refused("/".join(parts), "no environment has this name", ", ".join(sorted(names)))
            for parts, entry in entries.items():
                _unpack(opened, entry, into.joinpath(*parts))
    except _UNREADABLE as error:
        raise _refused(archive.name, f"it cannot be unpacked: {error}", "a ZIP archive") from error
    for environment in sorted(each.name for each in into.iterdir()):
        _require_assembly(into / environment)
    return into


def _only_file(folder: Path) -> Path:
    """Return the file that the download wrote, whatever its name is."""
    found = list(os.scandir(folder)) if folder.is_dir() else []
    if len(found) != 1 or not found[0].is_file(follow_symlinks=False):
        raise _refused(str(folder), f"it holds {len(found)} things", "one archive")
    if (size := found[0].stat().st_size) > MAX_ARCHIVE_BYTES:
        raise _refused(found[0].name, f"it has {size:,} bytes", f"{MAX_ARCHIVE_BYTES:,} bytes")
    return Path(found[0].path)


def _entries(opened: zipfile.ZipFile, archive: Path) -> dict[tuple[str, ...], zipfile.ZipInfo]:
    """Return the archive's files by the parts of their names."""
    found: dict[tuple[str, ...], zipfile.ZipInfo] = {}
    _require_small(opened, archive)
    for entry in opened.infolist():
        # Python cuts `filename` at a NUL.
        name = entry.orig_filename
        parts = tuple(name.removesuffix("/").split("/"))
        if len(parts) > _MAX_NAMES or not all(_NAME.fullmatch(part) and part.strip(".") for part in parts):
            allowed = f"at most {_MAX_NAMES} names of letters, digits and _.@+=,~-"
            raise _refused(name, "its name is odd", allowed)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise _refused(name, "it is a link or a device", "files")
        if entry.flag_bits & 1 or entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _refused(name, "its encryption or compression is odd", "deflate, or none")
        if name.endswith("/"):
            continue
        if len(parts) == 1:
            raise _refused(name, "it is in no environment's folder", "one folder for each environment")
        if parts in found:
            raise _refused(name, "it is there twice", "each file once")
        found[parts] = entry
    folded = {tuple(map(str.casefold, parts)) for parts in found}
    parents = {parts[:length] for parts in folded for length in range(1, len(parts))}
    if len(folded) < len(found) or parents & folded:
        raise _refused(archive.name, "two names differ in case alone, or a file is a folder too", "distinct names")
    return found


def _require_small(opened: zipfile.ZipFile, archive: Path) -> None:
    entries = opened.infolist()
    size = sum(entry.file_size for entry in entries)
    if len(entries) > MAX_FILES or size > MAX_UNPACKED_BYTES:
        allowed = f"{MAX_FILES:,} files, {MAX_UNPACKED_BYTES:,} bytes"
        raise _refused(archive.name, f"it unpacks to {len(entries):,} files of {size:,} bytes", allowed)


def _unpack(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, file: Path) -> None:
    """Write one file. An entry yields at most the bytes that it declares, which `_require_small` has added up."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(entry) as source, file.open("xb") as target:
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)


def _require_assembly(directory: Path) -> None:
    """Raise ReviewError unless what a review reads of the folder is an assembly of its form."""
    manifest = _read(directory / "manifest.json", _Manifest)
    for artifact in manifest.artifacts.values():
        if artifact.type == "aws:cloudformation:stack":
            name = artifact.properties.get("templateFile")
            if not isinstance(name, str) or not _TEMPLATE.fullmatch(name):
                raise _refused(f"{directory.name}/manifest.json", "templateFile is no file name", "NAME.template.json")
            _read(directory / name, _Template)
    for file in directory.glob(f"{_ASSETS}/**/*.y*ml"):
        _require_shallow(file)
    for asset in directory.glob(_ASSETS):
        if asset.is_file() and zipfile.is_zipfile(asset):
            with zipfile.ZipFile(asset) as opened:
                _require_small(opened, asset)


def _read(file: Path, model: type[_Model]) -> _Model:
    """Return the document of a file."""
    name = f"{file.parent.name}/{file.name}"
    try:
        if (size := file.stat().st_size) > MAX_DOCUMENT_BYTES:
            raise _refused(name, f"it has {size:,} bytes", f"{MAX_DOCUMENT_BYTES:,} bytes")
        document = json.loads(file.read_bytes())
        if any(depth > yaml_bounds.MAX_DEPTH for depth in _depths(document)):
            raise _refused(name, "it is nested too deeply", f"{yaml_bounds.MAX_DEPTH} levels")
        return model.model_validate(document, strict=True)
    except (OSError, RecursionError, ValidationError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise _refused(name, f"it cannot be read: {reason}", "a file of `cdk synth`") from error


def _require_shallow(file: Path) -> None:
    """Raise ReviewError for a chart's objects that nest too deeply. What is not YAML, the review refuses."""
    try:
        yaml_bounds.require_shallow(file.read_bytes())
    except yaml_bounds.BoundError as error:
        raise _refused(file.name, "it is nested too deeply", f"{yaml_bounds.MAX_DEPTH} levels") from error
    except yaml.YAMLError:
        return


def _depths(document: Any) -> Iterator[int]:
    """Yield the depth of each value, without recursion."""
    left = [(document, 0)]
    while left:
        value, depth = left.pop()
        yield depth
        if isinstance(value, dict | list):
            left += [(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value)]


def _refused(what: str, reason: str, allowed: str) -> ReviewError:
    shown = ascii(what[:200])[1:-1]
    return ReviewError(f"the assemblies of the head are refused: {shown}: {reason}. Allowed: {allowed}")


if __name__ == "__main__":
    try:
        write(Path.cwd(), Path(sys.argv[1]), Console(stderr=True))
    except ReviewError as stopped:
        sys.exit(f"handover: {stopped}")
