"""Output of a run's jobs that the training library keeps in the run's storage, read through a head.

Whoever may follow a run may reach a head, but not the run's storage. The lines of the answer are in
packages/ray-resume/ray_resume/output/kept.py.
"""

import base64
import binascii
import io
import json
import shlex
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ops.jobs import questions
from ops.jobs.head_api import HeadApi
from ops.jobs.packing import library
from ops.jobs.questions import UnansweredError

_SECONDS: Final = 600.0
_END: Final = "end of the kept output"


class KeptOutputError(Exception):
    """The kept output cannot be read; the message says why."""


@dataclass(frozen=True)
class KeptOutput:
    """What is kept of the output of one job of Ray; `size` is None if its end was not seen."""

    job: str
    series: str
    size: int | None
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    """Positions in bytes, with what the job printed there."""

    @property
    def end_missing(self) -> str:
        """The reason if the end of the output may be missing."""
        return "" if self.size is not None else "the head was lost before the end was kept"

    def between(self, begin: int, end: int) -> str | None:
        """Return the characters between two positions, counted as Ray counts them; None if some are not kept."""
        [(at, content), *others] = self._stretches() or [(0, b"")]
        text = as_ray_reads(content)
        return text[begin:end] if at == 0 and not others and end <= len(text) else None

    def after(self, begin: int) -> list[str]:
        """Return the characters from a position on, in pieces between which some are missing.

        From the beginning on, they are the job's own; later positions count characters as Ray does.
        """
        found: list[str] = []
        shown = begin
        for at, content in self._stretches():
            text = as_ray_reads(content) if begin else content.decode(errors="replace")
            if at > shown and not found:
                found.append("")
            if at + len(text) > begin:
                found.append(text[max(0, begin - at) :])
                shown = at + len(text)
        if self.size is not None and self.pieces and self.size > (last := self.pieces[-1])[0] + len(last[1]):
            found.append("")
        return found

    def _stretches(self) -> list[tuple[int, bytes]]:
        """Return the pieces without a gap between them as one, each with its position."""
        found: list[tuple[int, bytearray]] = []
        for position, piece in self.pieces:
            if found and (end := found[-1][0] + len(found[-1][1])) >= position:
                found[-1][1].extend(piece[end - position :])
            else:
                found.append((position, bytearray(piece)))
        return [(at, bytes(content)) for at, content in found]


def as_ray_reads(content: bytes) -> str:
    """Return text as Ray's Jobs API sends it: Ray opens the file as text, so that each line ends with a line feed."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace").read()


def read(head: HeadApi, run: str, storage: str, *, interval: float = 1.0) -> list[KeptOutput]:
    """Return the kept output of the jobs of a run, oldest first; empty if there is none.

    Raises KeptOutputError, HeadUnreachableError and RayApiError.
    """
    # The library of this checkout, in any image.
    package = library()
    head.upload(package.name, package.content)
    words = ["python", "-m", "ray_resume", "output", f"{storage.rstrip('/')}/{run}"]
    id = questions.ask(head, run, "output", shlex.join(words), {"working_dir": package.uri})
    try:
        done, output = questions.answer(head, id, seconds=_SECONDS, interval=interval)
    except UnansweredError as error:
        raise KeptOutputError(str(error)) from error
    lines = output.splitlines()
    if not done or _END not in lines:
        raise KeptOutputError(
            f"the head {head.name} cannot read {storage}. Fix: correct what the last line names. "
            f"Last line: {questions.last_line(output)}"
        )
    return parsed(lines)


def parsed(lines: Iterable[str]) -> list[KeptOutput]:
    """Return the kept output that lines carry; other lines, such as Ray's own, are left out."""
    found: list[KeptOutput] = []
    for line in lines:
        if line.startswith('{"folder"'):
            about = json.loads(line)
            found.append(KeptOutput(about["job"], about["series"], about["size"]))
            continue
        position, _, packed = line.partition(" ")
        if found and position.isdecimal():
            try:
                found[-1].pieces.append((int(position), zlib.decompress(base64.b64decode(packed, validate=True))))
            except (binascii.Error, zlib.error):
                continue
    return found
