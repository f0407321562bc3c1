"""Synthesise and compare the CloudFormation templates of two checkouts, in parallel."""

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config import available
from ops.review.checkouts.cdk import difference, synthesise
from ops.review.checkouts.inputs import ENVIRONMENTS
from ops.review.checkouts.progress import ReviewProgress
from ops.review.losses import losses

# At least both checkouts of one environment. Each synthesis needs a core and half a GiB.
_AT_ONCE: Final = max(2, min(8, os.cpu_count() or 2))
_SUFFIX: Final = ".template.json"


@dataclass(frozen=True)
class Checkouts:
    """The compared checkouts: `head` with `base`, both synthesised with `context`."""

    base: Path
    head: Path
    context: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """The difference of an environment's templates as text, and a warning for each loss."""

    difference: str
    warnings: list[str]


def compared(checkouts: Checkouts, names: list[str], scratch: Path, progress: ReviewProgress) -> dict[str, Comparison]:
    """Synthesise these environments of both checkouts below `scratch`; return a comparison for each.

    Raises ReviewError for the first environment that does not synthesise, after the running programs have ended.
    """
    with worker_threads(_AT_ONCE) as workers:
        run = _Run(checkouts, scratch, progress, workers)
        sides = [(name, run.head(name), run.base(name)) for name in names]
        return {name: run.compared(name, head.result(), base.result() if base else None) for name, head, base in sides}


@contextmanager
def worker_threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that wait for programs; after a failure or Ctrl-C they start no further program."""
    with ThreadPoolExecutor(number) as workers:
        try:
            yield workers
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise


@dataclass(frozen=True)
class _Run:
    checkouts: Checkouts
    scratch: Path
    progress: ReviewProgress
    workers: ThreadPoolExecutor

    def head(self, name: str) -> Future[Path]:
        return self._synthesis("head", self.checkouts.head, name)

    def base(self, name: str) -> Future[Path] | None:
        """Start the synthesis of `base`; None if `base` lacks the environment."""
        if name not in available(self.checkouts.base / ENVIRONMENTS):
            return None
        return self._synthesis("base", self.checkouts.base, name)

    def compared(self, name: str, head: Path, base: Path | None) -> Comparison:
        """Compare the environment's templates in the output folders of both syntheses."""
        after = {path.name: path for path in head.glob(f"*{_SUFFIX}")}
        before = {path.name: path for path in base.glob(f"*{_SUFFIX}")} if base else {}
        told: list[str | Future[str]] = []
        for template in sorted(after):
            stack = template.removesuffix(_SUFFIX)
            if template not in before:
                told.append(f"Stack {stack} is new")
            elif json.loads(before[template].read_text()) != json.loads(after[template].read_text()):
                told.append(self._difference(stack, after[template], before[template]))
        told += [f"Stack {template.removesuffix(_SUFFIX)} is removed" for template in sorted(before.keys() - after)]
        text = "\n".join(part if isinstance(part, str) else part.result() for part in told)
        return Comparison(text, list(losses(base, head, name)) if base else [])

    def _synthesis(self, side: str, checkout: Path, name: str) -> Future[Path]:
        def work() -> Path:
            with self.progress.step(f"{name}: synthesising {side}", f"{name}: {side} synthesised"):
                return synthesise(checkout, name, self.scratch / name / side, self.checkouts.context)

        return self.workers.submit(work)

    def _difference(self, stack: str, template: Path, before: Path) -> Future[str]:
        def work() -> str:
            with self.progress.step(f"{stack}: comparing", f"{stack}: compared"):
                return difference(self.checkouts.head, template, before)

        return self.workers.submit(work)
