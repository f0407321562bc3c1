"""Which numbers of workers an elastic run may have, and which of them it takes next."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ray_resume.runs import InvalidInputError

WAIT: Final = 600.0
"""Seconds: more than the reboot of a node or a start on a spare one; HyperPod's replacement takes 20 minutes."""

# What is left of a resource is a difference of floats.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class Elastic:
    """Lets a run train with fewer workers than it was given, and with all of them again later.

    `min_workers` are the fewest with which it trains; None: always all of them. Only numbers of workers that divide
    `batch`, the samples of a global batch, are used; None: every number. After `wait` seconds without resources for all
    workers the run continues with fewer. RUN_MIN_WORKERS, RUN_MAX_WORKERS and RUN_WAIT_FOR_WORKERS override
    `min_workers`, the given number of workers and `wait`.
    """

    min_workers: int | None = None
    batch: int | None = None
    wait: float = WAIT


@dataclass(frozen=True)
class Room:
    """What the cluster offers to a run's workers.

    `waits`: these workers have no resources. `free`: so many more would fit into what nobody uses. `wanted`: another
    job waits for resources.
    """

    waits: bool
    free: int
    wanted: bool


@dataclass(frozen=True)
class Sizes:
    """The numbers of workers that a run may have, the largest first."""

    allowed: tuple[int, ...]
    wait: float

    @property
    def full(self) -> int:
        return self.allowed[0]

    @property
    def fixed(self) -> bool:
        """Return whether the run always has the same number of workers."""
        return len(self.allowed) == 1

    def smaller(self, size: int, room: Room, waited: float) -> int | None:
        """Return with how many workers to continue if `size` have had no resources for `waited` seconds."""
        if not room.waits or waited < self.wait:
            return None
        return self._largest(room.free, below=size)

    def larger(self, size: int, room: Room) -> int | None:
        """Return to how many workers `size` that train can grow: not into what another job waits for."""
        if room.waits or room.wanted:
            return None
        found = self._largest(size + room.free)
        return found if found and found > size else None

    def _largest(self, most: int, below: float = float("inf")) -> int | None:
        return next((number for number in self.allowed if number <= most and number < below), None)


def sizes(elastic: Elastic, workers: int) -> Sizes:
    """Return the numbers of workers of a run that was given `workers`, and the environment's variables.

    Raises:
        InvalidInputError: a variable or a number is invalid.
    """
    full = _number("RUN_MAX_WORKERS") or workers
    fewest = _number("RUN_MIN_WORKERS") or elastic.min_workers or full
    wait = float(_number("RUN_WAIT_FOR_WORKERS") or elastic.wait)
    if not 1 <= fewest <= full:
        raise InvalidInputError(f"at least {fewest} workers are invalid. Allowed: 1 to {full}, all workers of the run")
    if fewest == full:
        return Sizes((full,), wait)
    allowed = tuple(
        number for number in range(full, fewest - 1, -1) if elastic.batch is None or elastic.batch % number == 0
    )
    if full not in allowed:
        fitting = [number for number in range(1, full) if elastic.batch and elastic.batch % number == 0]
        raise InvalidInputError(
            f"{full} workers of an elastic run are invalid: they do not divide its global batch of {elastic.batch} "
            f"samples. Allowed: {', '.join(map(str, fitting))}, or another batch"
        )
    return Sizes(allowed, wait)


def fitting(bundle: Mapping[str, float], nodes: Iterable[Mapping[str, float]]) -> int:
    """Return how many bundles of resources fit into what the nodes have free."""
    wanted = {name: amount for name, amount in bundle.items() if amount}
    return sum(
        min(int(node.get(name, 0.0) / amount + _ROUNDING) for name, amount in wanted.items())
        for node in nodes
        if wanted
    )


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    if text and not (text.isdecimal() and int(text) >= 1):
        raise InvalidInputError(f"{variable} {text!r} is invalid. Allowed: whole numbers from 1")
    return int(text) if text else None
