"""Make the copies that are missing, one after the other, and verify each."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ops.durations import elapsed
from ops.mirror.crane import Crane
from ops.mirror.plan import ArtifactKind, Copy, CopyState, at, require_copy

Say = Callable[[str], None]


def run(crane: Crane, copies: Sequence[Copy], say: Say, console: Console) -> list[Copy]:
    """Return the copies as they are now; print a line for each with its time. A rerun resumes after an interruption.

    Raises MirrorError at the first copy that fails.
    """
    done = []
    for number, copy in enumerate(copies, start=1):
        place = f"[{number}/{len(copies)}] {copy.wanted.target}"
        if copy.state is CopyState.MISSING:
            started = time.monotonic()
            with _working(place, console):
                _make(crane, copy)
            say(f"{place}: copied in {elapsed(time.monotonic() - started)}")
            done.append(replace(copy, state=CopyState.COPIED))
        else:
            say(f"{place}: present")
            done.append(copy)
    return done


def _make(crane: Crane, copy: Copy) -> None:
    wanted = copy.wanted
    if wanted.kind is ArtifactKind.IMAGE:
        # By digest: what was compared is copied, also if the tag moves meanwhile.
        crane.copy(at(wanted.source, copy.digest), wanted.target)
    else:
        crane.push(Path(wanted.source), wanted.target)
    require_copy(crane, wanted.target, copy.digest)


@contextmanager
def _working(place: str, console: Console) -> Iterator[None]:
    """Show in a terminal what is copied, and for how long."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(place, total=None)
        yield
