"""Pack built programs into one archive, and take them from such an archive by its digest."""

import hashlib
import http.client
import re
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.building.golang import BinariesError

VARIABLE: Final = "REHEARSAL_PROGRAMS"
_TIMEOUT_SECONDS: Final = 60
_FIX: Final = f"Fix: correct it, or unset {VARIABLE} to build the programs from source"


def pack(directory: Path, names: Iterable[str], target: Path) -> str:
    """Write programs and folders of a build to an archive; return its SHA-256. An interruption leaves no archive."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
        partial = Path(temporary, target.name)
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                path = directory / name
                for file in sorted(path.rglob("*.yaml")) if path.is_dir() else [path]:
                    archive.write(file, Path(directory.name, file.relative_to(directory)))
        with partial.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        partial.replace(target)
    return digest


def take(given: str, directory: Path, names: Iterable[str]) -> None:
    """Download an archive, and move what it has of a build to the build's folder if its digest is the given one.

    `given` is URL#sha256=DIGEST. Raises BinariesError, and then leaves the folder as it was.
    """
    url, _, digest = given.partition("#sha256=")
    if not re.fullmatch(r"https?://\S+", url) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise _invalid(
            given, "it is no URL with a digest", "URL#sha256=DIGEST, which `python -m rehearsal pack` prints"
        )
    with tempfile.TemporaryDirectory(dir=directory, prefix=".given-") as temporary:
        archive = Path(temporary, "archive")
        try:
            found = _download(url, archive)
        except (OSError, http.client.HTTPException) as error:
            raise _invalid(url, f"it cannot be downloaded: {error}", "an archive that this machine reaches") from None
        if found != digest:
            raise _invalid(url, f"its SHA-256 is {found}", f"the archive with the SHA-256 {digest}")
        unpacked = Path(temporary, directory.name)
        try:
            with zipfile.ZipFile(archive) as content:
                content.extractall(temporary)
        except zipfile.BadZipFile as error:
            raise _invalid(url, str(error), "what `python -m rehearsal pack` wrote") from None
        if missing := [name for name in names if not (unpacked / name).exists()]:
            reason = f"it has no {', '.join(missing)} of build {directory.name}"
            raise _invalid(url, reason, "an archive of this checkout's versions")
        for name in names:
            path = unpacked / name
            if path.is_dir():
                shutil.rmtree(directory / name, ignore_errors=True)
            else:
                path.chmod(0o755)
            path.replace(directory / name)


def _download(url: str, target: Path) -> str:
    """Write what a URL answers to a file; return its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer, target.open("wb") as file:
        while block := answer.read(1 << 20):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _invalid(value: str, reason: str, allowed: str) -> BinariesError:
    return BinariesError(f"{VARIABLE}: {value} is invalid: {reason}. Allowed: {allowed}. {_FIX}")
