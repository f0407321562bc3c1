"""The samples of each training step: a function of seed and step only, so that any worker can resume at any step."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

SHUFFLED: Final = 1
"""The first version of an order: a list of all samples, shuffled for each epoch."""

FORMULA: Final = 2
"""An order in which a formula gives the sample at each position: no list of all samples is kept."""

NEWEST: Final = FORMULA

_ROUNDS: Final = 8
# SplitMix64's finaliser: shifts and factors with which each input bit changes half of the output bits.
_SHIFTS: Final = (30, 27, 31)
_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True)
class DataOrder:
    """An order in which each epoch uses each of `samples` samples once, in global batches of `batch` samples.

    Each epoch has a different order. The last batch of an epoch is the remainder. A global batch does not depend on
    the number of workers. `Checkpoints.data_order` returns the run's order in the `version` with which the run began.
    """

    samples: int
    batch: int
    seed: int
    # Runs under way use this order without a version: it must not change.
    version: int = SHUFFLED

    def __post_init__(self) -> None:
        if self.samples < 1 or self.batch < 1:
            raise ValueError(f"{self.samples} samples in batches of {self.batch}: both must be 1 or more")
        if self.version not in (SHUFFLED, FORMULA):
            raise ValueError(f"data order version {self.version!r} is invalid. Allowed: {SHUFFLED}, {FORMULA}")

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.samples // self.batch)

    def indices(self, step: int) -> list[int]:
        """Return the sample indices in the global batch of a step (from 0, counted over all epochs)."""
        return self._at(step, self._positions(step))

    def pieces(self, step: int, rank: int, world_size: int, piece: int) -> list[tuple[list[int], float]]:
        """Return this worker's part of the global batch: micro-batches of at most `piece` samples, with their weights.

        The mean over workers of the sum of weight times mean loss is the mean loss of the global batch, whatever the
        number of workers. Collective operations need the same number of pieces at all workers: a worker without
        samples left gets a sample of weight 0.
        """
        positions = self._positions(step)
        parts = _parts(positions, rank, world_size, piece)
        samples = [self._at(step, part or positions[:1]) for part in parts]
        weights = [len(part) * world_size / len(positions) for part in parts]
        return list(zip(samples, weights, strict=True))

    def batches(self, steps: range, rank: int, world_size: int, piece: int) -> Batches:
        """Return the samples of this worker's pieces in these steps, one after the other: a DataLoader's batches."""
        return Batches(self, steps, rank, world_size, piece)

    def _positions(self, step: int) -> range:
        """Return the positions of a step's samples in the order of their epoch."""
        first = step % self.steps_per_epoch * self.batch
        return range(first, min(first + self.batch, self.samples))

    def _at(self, step: int, positions: range) -> list[int]:
        epoch = step // self.steps_per_epoch
        if self.version == SHUFFLED:
            return list(_shuffled(self.samples, self.seed, epoch)[positions.start : positions.stop : positions.step])
        return _permuted(self.samples, f"{self.seed}/{epoch}", positions)


@dataclass(frozen=True)
class InOrder(DataOrder):
    """The order of the dataset itself, in each epoch."""

    def _at(self, step: int, positions: range) -> list[int]:  # noqa: ARG002
        return list(positions)


@dataclass(frozen=True)
class Batches(Sequence[list[int]]):
    """The samples of a worker's pieces from the first to the last of some steps; any of them can be read alone."""

    order: DataOrder
    steps: range
    rank: int
    world_size: int
    piece: int

    def __len__(self) -> int:
        return self._before(self.steps.stop) - self._before(self.steps.start)

    def __getitem__(self, number: int) -> list[int]:  # type: ignore[override]  # slices have no use here
        if not 0 <= number < len(self):
            raise IndexError(f"batch {number} is invalid. Allowed: 0 to {len(self) - 1}")
        of_all, per_step = self._before(self.steps.start) + number, self._pieces_of(0)
        epoch, in_epoch = divmod(of_all, self._before(self.order.steps_per_epoch))
        # The last step of an epoch may have fewer pieces, never more.
        step = min(in_epoch // per_step, self.order.steps_per_epoch - 1)
        return self.order.pieces(epoch * self.order.steps_per_epoch + step, self.rank, self.world_size, self.piece)[
            in_epoch - step * per_step
        ][0]

    def _before(self, step: int) -> int:
        """Return the number of pieces before a step of all epochs."""
        epochs, steps = divmod(step, self.order.steps_per_epoch)
        last = self.order.steps_per_epoch - 1
        return epochs * (last * self._pieces_of(0) + self._pieces_of(last)) + steps * self._pieces_of(0)

    def _pieces_of(self, step: int) -> int:
        return len(_parts(self.order._positions(step), self.rank, self.world_size, self.piece))


def _parts(positions: range, rank: int, world_size: int, piece: int) -> list[range]:
    """Return the positions of a worker's pieces; those at the end may be empty."""
    mine = positions[rank::world_size]
    rounds = -(-len(positions) // (world_size * piece))
    return [mine[index * piece : (index + 1) * piece] for index in range(rounds)]


@lru_cache(maxsize=2)
def _shuffled(samples: int, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(samples))
    random.Random(f"{seed}/{epoch}").shuffle(order)  # noqa: S311 (an order of samples is no secret)
    return tuple(order)


def _permuted(samples: int, key: str, positions: range) -> list[int]:
    """Return the samples at these positions of a permutation of all samples.

    A Feistel network permutes the numbers of an even number of bits. A sample number that is too large is permuted
    again until it is not (cycle walking): at most three of four are too large.
    """
    half = max(1, -(-(samples - 1).bit_length() // 2))
    keys = [_number(f"{key}/{round_}") for round_ in range(_ROUNDS)]
    numbers = _feistel(np.arange(positions.start, positions.stop, positions.step, dtype=np.uint64), half, keys)
    while (outside := numbers >= samples).any():
        numbers[outside] = _feistel(numbers[outside], half, keys)
    found: list[int] = numbers.tolist()
    return found


def _feistel(numbers: np.ndarray, half: int, keys: list[np.uint64]) -> np.ndarray:
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> bits, numbers & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right + key) & mask)
    return (left << bits) | right


def _mixed(numbers: np.ndarray) -> np.ndarray:
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(_SHIFTS[-1]))


def _number(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))
