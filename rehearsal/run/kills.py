"""Kill a program at random moments, as a lost machine or connection does."""

import random
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_SPREAD_SECONDS: Final = 30.0
"""Seconds over which a few kills are spread, so that one destroy meets them all: it takes about as long."""
_LATEST_SECONDS: Final = 6.0
"""The latest kill of many, in seconds: by then `ops destroy` has started the CDK CLI."""


class Ended(NamedTuple):
    """A program that ended before it was killed."""

    code: int
    seconds: float


def moments(count: int, seed: int) -> list[float]:
    """Return so many seeded moments, in seconds after a program's start."""
    drawn = random.Random(seed)  # noqa: S311 - no secret
    latest = max(_LATEST_SECONDS, _SPREAD_SECONDS / max(count, 1))
    return [drawn.uniform(0.0, latest) for _ in range(count)]


def end_or_kill(argv: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path, seconds: float) -> Ended | None:
    """Run a program; return its end, or None if it was killed after `seconds`, before its end.

    What it started stays, as on a user's machine.
    """
    began = time.monotonic()
    with log.open("w") as file:
        child = subprocess.Popen(argv, cwd=cwd, env=env, stdout=file, stderr=subprocess.STDOUT)
        try:
            return Ended(child.wait(seconds), time.monotonic() - began)
        except subprocess.TimeoutExpired:
            return None
        finally:
            child.kill()
            child.wait()
