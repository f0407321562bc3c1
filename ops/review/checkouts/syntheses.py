"""Synthesise environments of two checkouts, in parallel."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config import available
from ops.review.checkouts.cdk import ReviewError, synthesise
from ops.review.checkouts.inputs import ENVIRONMENTS
from ops.review.checkouts.progress import ReviewProgress

# At least both checkouts of one environment. Each synthesis needs a core and half a GiB.
AT_ONCE: Final = max(2, min(8, os.cpu_count() or 2))


@dataclass(frozen=True)
class Checkouts:
    """The compared checkouts: `head` with `base`, both synthesised with `context`."""

    base: Path
    head: Path
    context: Mapping[str, str]
    handed_over: Path | None = None
    """The folder of `head`'s assemblies, in place of its synthesis: no line of `head` runs."""


@dataclass(frozen=True)
class SynthesisFolders:
    """The output folders of both syntheses of an environment; `base` is None if that checkout lacks it."""

    environment: str
    base: Path | None
    head: Path


def synthesised(
    checkouts: Checkouts, names: Sequence[str], scratch: Path, progress: ReviewProgress, workers: ThreadPoolExecutor
) -> Iterator[SynthesisFolders]:
    """Synthesise these environments of both checkouts below `scratch`; yield each when both its sides are there.

    Raises ReviewError for the first environment that does not synthesise, or that was not handed over.
    """

    def start(side: str, checkout: Path, name: str) -> Future[Path]:
        def work() -> Path:
            if side == "head" and checkouts.handed_over:
                return _handed_over(checkouts.handed_over, name)
            with progress.step(f"{name}: synthesising {side}", f"{name}: {side} synthesised"):
                return synthesise(checkout, name, scratch / name / side, checkouts.context)

        return workers.submit(work)

    known = set(available(checkouts.base / ENVIRONMENTS))
    started = [
        (name, start("head", checkouts.head, name), start("base", checkouts.base, name) if name in known else None)
        for name in names
    ]
    for name, head, base in started:
        yield SynthesisFolders(name, base.result() if base else None, head.result())


def _handed_over(folder: Path, name: str) -> Path:
    if not (folder / name).is_dir():
        raise ReviewError(f"the head handed over no assembly of {name}. Allowed: an assembly of each environment")
    return folder / name


@contextmanager
def worker_threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that wait for programs; after a failure or Ctrl-C they start no further program."""
    with ThreadPoolExecutor(number) as workers:
        try:
            yield workers
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise
