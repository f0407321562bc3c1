"""The samples of each training step: a function of seed and step only, so that any worker can resume at any step."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class DataOrder:
    """An order in which each epoch uses each of `samples` samples once, in global batches of `batch` samples.

    Each epoch has a different order. The last batch of an epoch is the remainder. A global batch does not depend on
    the number of workers.
    """

    samples: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.samples < 1 or self.batch < 1:
            raise ValueError(f"{self.samples} samples in batches of {self.batch}: both must be 1 or more")

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.samples // self.batch)

    def indices(self, step: int) -> list[int]:
        """Return the sample indices in the global batch of a step (from 0, counted over all epochs)."""
        epoch, position = divmod(step, self.steps_per_epoch)
        order = _permutation(self.samples, self.seed, epoch)
        return list(order[position * self.batch : (position + 1) * self.batch])

    def pieces(self, step: int, rank: int, world_size: int, piece: int) -> list[tuple[list[int], float]]:
        """Return this worker's part of the global batch: micro-batches of at most `piece` samples, with their weights.

        The mean over workers of the sum of weight times mean loss is the mean loss of the global batch, whatever the
        number of workers. Collective operations need the same number of pieces at all workers: a worker without
        samples left gets a sample of weight 0.
        """
        batch = self.indices(step)
        mine = batch[rank::world_size]
        rounds = -(-len(batch) // (world_size * piece))
        parts = [mine[index * piece : (index + 1) * piece] for index in range(rounds)]
        return [(part or batch[:1], len(part) * world_size / len(batch)) for part in parts]


@lru_cache(maxsize=2)
def _permutation(samples: int, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(samples))
    random.Random(f"{seed}/{epoch}").shuffle(order)  # noqa: S311 (an order of samples is no secret)
    return tuple(order)
