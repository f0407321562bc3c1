"""Deployed zips and layers, unpacked where a function can run from them.

Lambda shows a function its code at /var/task and its layers, merged, at /opt. Both are absolute paths that
only root could make here, and CDK's handlers use /opt literally: BucketDeployment's calls /opt/awscli/aws, the
kubectl handler puts /opt/kubectl on PATH, the AWS CLI of its layer starts with /var/lang/bin/python. So the
merged layers get a folder of their own, and these literals are rewritten to it when a function is unpacked.
"""

import functools
import hashlib
import io
import os
import re
import shutil
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedded_account.lambdas.aws_cli import replace_program

_SOURCE_SUFFIXES = {".py", ".js", ".mjs", ".cjs", ".sh"}
_LAMBDA_PYTHON = b"#!/var/lang/bin/python"
_ANY_PYTHON = b"#!/usr/bin/env python3"


@dataclass(frozen=True)
class Package:
    """A function on disk: `task` stands for /var/task, `opt` for /opt."""

    task: Path
    opt: Path


class PackageStore:
    """Unpacks packages below one directory, each content once. Safe to use from several threads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()

    def unpack(self, code: bytes, layers: Sequence[bytes]) -> Package:
        """Return the unpacked function; later layers win where two hold the same file."""
        digests = [_digest(layer) for layer in layers]
        with self._lock:
            opt = self._directory / "opt" / (_digest("".join(digests).encode()) if digests else "none")
            if not opt.exists():
                sources = [self._layer(layer, digest) for layer, digest in zip(layers, digests, strict=True)]
                _make(opt, lambda folder: _merge(sources, folder))
            task = self._directory / "task" / f"{_digest(code)}-{opt.name}"
            if not task.exists():
                _make(task, lambda folder: _extract_code(code, folder, opt))
        return Package(task, opt)

    def _layer(self, content: bytes, digest: str) -> Path:
        folder = self._directory / "layers" / digest
        if not folder.exists():
            _make(folder, lambda unfinished: _extract_layer(content, unfinished))
        return folder


@functools.lru_cache(maxsize=64)  # a layer is hashed once, not at each invocation
def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder under another name first: one that exists under its own name is complete."""
    unfinished = folder.with_name(folder.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    fill(unfinished)
    unfinished.rename(folder)


def _extract(content: bytes, folder: Path) -> list[Path]:
    """Extract with mode bits, which `zipfile` alone drops; everything is readable by its owner."""
    files = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, folder))
            if not entry.is_dir():
                path.chmod(((entry.external_attr >> 16) & 0o777) | 0o644)
                files.append(path)
    return files


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
