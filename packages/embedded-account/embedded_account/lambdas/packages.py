"""Unpack deployed zips and layers into folders from which a function can run.

Lambda provides a function's code at /var/task, and its merged layers at /opt. Only root could create these absolute
paths here, and CDK's handlers contain /opt literally: BucketDeployment's calls /opt/awscli/aws, the kubectl handler
puts /opt/kubectl on PATH, the AWS CLI of its layer starts with /var/lang/bin/python. The merged layers therefore get
their own folder, and unpacking a function rewrites these literals to it.
"""

import calendar
import functools
import hashlib
import io
import os
import re
import shutil
import struct
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedded_account.lambdas.aws_cli import replace_program

_SOURCE_SUFFIXES = {".py", ".js", ".mjs", ".cjs", ".sh"}
_LAMBDA_PYTHON = b"#!/var/lang/bin/python"
_ANY_PYTHON = b"#!/usr/bin/env python3"
_EXTRA_HEADER = struct.Struct("<HH")
_TIMES = 0x5455
_CHANGED = struct.Struct("<Bi")


@dataclass(frozen=True)
class FunctionPackage:
    """A function on disk: `task` replaces /var/task, `opt` replaces /opt."""

    task: Path
    opt: Path


class PackageStore:
    """Unpacks packages below one directory, each content once. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()

    def unpack(self, code: bytes, layers: Sequence[bytes]) -> FunctionPackage:
        """Return the unpacked function; if two layers contain the same file, the later layer's is used."""
        digests = [_digest(layer) for layer in layers]
        with self._lock:
            opt = self._directory / "opt" / (_digest("".join(digests).encode()) if digests else "none")
            if not opt.exists():
                sources = [self._layer(layer, digest) for layer, digest in zip(layers, digests, strict=True)]
                _make(opt, lambda folder: _merge(sources, folder))
            task = self._directory / "task" / f"{_digest(code)}-{opt.name}"
            if not task.exists():
                _make(task, lambda folder: _extract_code(code, folder, opt))
        return FunctionPackage(task, opt)

    def _layer(self, content: bytes, digest: str) -> Path:
        folder = self._directory / "layers" / digest
        if not folder.exists():
            _make(folder, lambda unfinished: _extract_layer(content, unfinished))
        return folder


@functools.lru_cache(maxsize=64)  # a layer is hashed once, not at each invocation
def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder under another name, then rename it: a folder with its final name is complete."""
    unfinished = folder.with_name(folder.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    fill(unfinished)
    unfinished.rename(folder)


def _extract(content: bytes, folder: Path) -> list[Path]:
    """Extract files with mode bits and times, which `zipfile` drops; return their paths. Their owner can read them all.

    By a source's time, Python knows whether the compiled file beside it is current: the AWS CLI's layer has both.
    """
    files = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, folder))
            if not entry.is_dir():
                path.chmod(((entry.external_attr >> 16) & 0o777) | 0o644)
                os.utime(path, (_changed(entry),) * 2)
                files.append(path)
    return files


def _changed(entry: zipfile.ZipInfo) -> int:
    """Return when a file was changed, in seconds since the epoch.

    A zip's own times count by two seconds. Info-ZIP adds an exact one, whose first byte says which times follow
    (PKWARE APPNOTE 4.5, Info-ZIP's extra field 0x5455).
    """
    extra = entry.extra
    while len(extra) >= _EXTRA_HEADER.size:
        kind, size = _EXTRA_HEADER.unpack_from(extra)
        field, extra = extra[_EXTRA_HEADER.size :][:size], extra[_EXTRA_HEADER.size + size :]
        if kind == _TIMES and len(field) >= _CHANGED.size and field[0] & 1:
            return int(_CHANGED.unpack_from(field)[1])
    year, month, day, *time = entry.date_time
    return calendar.timegm((year, max(month, 1), max(day, 1), *time))


def _extract_layer(content: bytes, folder: Path) -> None:
    for path in _extract(content, folder):
        if os.access(path, os.X_OK):
            with path.open("rb") as file:
                is_lambdas = file.read(len(_LAMBDA_PYTHON)) == _LAMBDA_PYTHON
            if is_lambdas:
                _, rest = path.read_bytes().split(b"\n", 1)
                path.write_bytes(_ANY_PYTHON + b"\n" + rest)


def _merge(layers: Sequence[Path], opt: Path) -> None:
    for layer in layers:
        shutil.copytree(layer, opt, copy_function=_link, dirs_exist_ok=True, symlinks=True)
    replace_program(opt)


def _link(source: str, target: str) -> None:
    Path(target).unlink(missing_ok=True)
    os.link(source, target)


def _extract_code(code: bytes, task: Path, opt: Path) -> None:
    folders = "|".join(re.escape(entry.name) for entry in sorted(opt.iterdir()))
    literal = re.compile(rb"(?<![\w./-])/opt/(?=(?:%s)\b)" % folders.encode()) if folders else None
    for path in _extract(code, task):
        if literal and path.suffix in _SOURCE_SUFFIXES:
            text = path.read_bytes()
            rewritten = literal.sub(f"{opt}/".encode().replace(b"\\", rb"\\"), text)
            if rewritten != text:
                path.write_bytes(rewritten)
