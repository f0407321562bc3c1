"""Read the parts of a bundle, redact them, and pack them into one archive."""

import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ops.errors import UnreachableError, in_plain_words
from ops.support.redaction import Redaction

FILE_BYTES: Final = 5 * 2**20
"""Size that a file is cut to: a log from its beginning; other files are left out."""
ALL_BYTES: Final = 50 * 2**20
"""Size of all files, uncompressed."""
MANIFEST: Final = "manifest.json"

Content = str | dict[str, Any] | list[Any]
"""The lines of a log, or data for a JSON file."""


@dataclass(frozen=True)
class CollectedFile:
    """A file of a part: its content, and what could not be read of it."""

    file: str
    content: Content
    lacks: str = ""


@dataclass(frozen=True)
class BundlePart:
    """One source; an error in `read` costs the rest of this part only."""

    name: str
    read: Callable[[], Iterator[CollectedFile]]


@dataclass
class Bundle:
    """The redacted files, and what is missing with the reason."""

    environment: str
    created: datetime
    files: dict[str, bytes] = field(default_factory=dict)
    missing: list[dict[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the folder in the archive, and by default of the archive."""
        return f"support-{self.environment}-{self.created:%Y%m%dT%H%M%SZ}"

    def as_data(self) -> dict[str, Any]:
        """Return the manifest."""
        return {
            "environment": self.environment,
            "created": self.created.isoformat(timespec="seconds"),
            "files": [{"file": name, "bytes": len(content)} for name, content in self.files.items()],
            "missing": self.missing,
        }


def collect(environment: str, parts: Sequence[BundlePart], redaction: Redaction, say: Callable[[str], None]) -> Bundle:
    """Return the bundle of all parts; call `say` with the name of each part before it is read."""
    bundle = Bundle(environment, datetime.now(UTC))
    for part in parts:
        say(part.name)
        try:
            with in_plain_words():
                for found in part.read():
                    _add(bundle, found, redaction)
        except Exception as error:  # noqa: BLE001 - a part that fails must not end the bundle
            bundle.missing.append({"part": part.name, "reason": redaction.text(reason_of(error))})
    return bundle


def reason_of(error: Exception) -> str:
    """Return an error as one line; an unknown one with its class."""
    line = " ".join(str(error).split())
    known = isinstance(error, UnreachableError) or type(error).__module__.startswith("ops.")
    return line if known else f"{type(error).__name__}: {line or 'no reason given'}"


def write(bundle: Bundle, target: Path) -> None:
    """Write the archive, which only this user can read. Raises OSError, also if the file exists."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in {MANIFEST: _json(bundle.as_data()), **bundle.files}.items():
            entry = tarfile.TarInfo(f"{bundle.name}/{name}")
            entry.size = len(content)
            entry.mode = 0o600
            entry.mtime = int(bundle.created.timestamp())
            archive.addfile(entry, io.BytesIO(content))


def _add(bundle: Bundle, found: CollectedFile, redaction: Redaction) -> None:
    if isinstance(found.content, str):
        # Redacted first: a cut through a secret would hide its beginning, by which it is recognised.
        content = redaction.text(found.content).encode()
        cut = len(content) > FILE_BYTES
        content = content[-FILE_BYTES:]
        lacks = f"only the last {FILE_BYTES:,} bytes" if cut else ""
    else:
        content = _json(redaction.data(found.content))
        if len(content) > FILE_BYTES:
            content, lacks = b"", f"{len(content):,} bytes are more than {FILE_BYTES:,}"
        else:
            lacks = ""
    if content and sum(map(len, bundle.files.values())) + len(content) > ALL_BYTES:
        content, lacks = b"", f"the bundle would be larger than {ALL_BYTES:,} bytes"
    if content:
        bundle.files[redaction.text(found.file)] = content
    for reason in filter(None, (found.lacks, lacks)):
        bundle.missing.append({"part": redaction.text(found.file), "reason": redaction.text(reason)})


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
