"""Each epoch takes every sample once, and the global batch is the same for any number of workers."""

import tracemalloc
from collections import Counter
from itertools import chain

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from ray_resume.data_order import FORMULA, SHUFFLED, DataOrder

SHUFFLED_TEN = [9, 6, 4, 3, 5, 7, 1, 2, 8, 0]
FORMULA_TEN = [6, 9, 0, 3, 8, 2, 4, 1, 7, 5]
FORMULA_OF_MANY = [344840769, 258188518, 450207906]
VERSIONS = {"shuffled": SHUFFLED, "by formula": FORMULA}
every_version = pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)


@every_version
@pytest.mark.parametrize(("samples", "batch"), [(90, 12), (96, 12), (5, 12), (1, 1), (2, 1), (100, 7), (257, 16)])
def test_epoch_takes_every_sample_once(samples: int, batch: int, version: int) -> None:
    order = DataOrder(samples, batch, seed=7, version=version)
    for epoch in range(3):
        steps = range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch)
        taken = [index for step in steps for index in order.indices(step)]
        assert sorted(taken) == list(range(samples))


@every_version
def test_epochs_differ_and_depend_on_the_seed_only(version: int) -> None:
    one, same, other = (DataOrder(50, 50, seed, version) for seed in (1, 1, 2))
    assert one.indices(0) == same.indices(0)
    assert one.indices(0) != one.indices(1)
    assert one.indices(0) != other.indices(0)


def test_order_of_a_version_never_changes() -> None:
    """Runs under way continue in it."""
    assert DataOrder(10, 10, seed=7).indices(1) == DataOrder(10, 10, 7, SHUFFLED).indices(1) == SHUFFLED_TEN
    assert DataOrder(10, 10, 7, FORMULA).indices(1) == FORMULA_TEN
    assert DataOrder(10**9, 3, 7, FORMULA).indices(10**6) == FORMULA_OF_MANY


@every_version
def test_every_sample_comes_equally_often_at_every_position(version: int) -> None:
    """Chi-squared of 8 x 8 cells: 49 on average, and above 95 once in 10,000 orders; the orders are fixed."""
    epochs = 4000
    order = DataOrder(8, 8, seed=7, version=version)
    cells = Counter(cell for epoch in range(epochs) for cell in enumerate(order.indices(epoch)))
    expected = epochs / 8
    assert sum((cells[place, one] - expected) ** 2 / expected for place in range(8) for one in range(8)) < 95


def test_formula_needs_no_memory_for_the_samples() -> None:
    tracemalloc.start()
    order = DataOrder(10**12, 64, seed=7, version=FORMULA)
    assert len(set(order.indices(10**9))) == 64
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"version 3 is invalid. Allowed: 1, 2"):
        DataOrder(10, 2, seed=7, version=3)


@every_version
@pytest.mark.parametrize("workers", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("piece", [1, 3, 64])
@pytest.mark.parametrize("step", [0, 7, 8])
def test_workers_share_a_global_batch_completely_and_without_repetition(
    workers: int, piece: int, step: int, version: int
) -> None:
    order = DataOrder(90, 12, seed=7, version=version)
    shares = [order.pieces(step, rank, workers, piece) for rank in range(workers)]
    weighted = [index for share in shares for indices, weight in share if weight for index in indices]
    assert sorted(weighted) == sorted(order.indices(step))
    assert len({len(share) for share in shares}) == 1, "unequal numbers of pieces would hang a collective operation"
    assert all(0 < len(indices) <= piece for share in shares for indices, _ in share)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 16])
def test_weighted_mean_over_workers_is_the_mean_of_the_global_batch(workers: int) -> None:
    order = DataOrder(90, 12, seed=7, version=FORMULA)
    for step in (0, order.steps_per_epoch - 1):
        losses = {index: float(index * index) for index in order.indices(step)}
        mean = sum(
            weight * sum(losses[index] for index in indices) / len(indices)
            for rank in range(workers)
            for indices, weight in order.pieces(step, rank, workers, piece=2)
        )
        assert mean / workers == pytest.approx(sum(losses.values()) / len(losses))


@pytest.mark.parametrize("samples", [90, 96, 5])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("first", [0, 3, 8, 17])
def test_batches_are_the_pieces_of_their_steps(samples: int, workers: int, first: int) -> None:
    order = DataOrder(samples, 12, seed=7, version=FORMULA)
    steps = range(first, 25)
    for rank in range(workers):
        pieces = chain.from_iterable(order.pieces(step, rank, workers, 5) for step in steps)
        batches = order.batches(steps, rank, workers, 5)
        assert list(batches) == [indices for indices, _ in pieces]
        assert len(batches) == len(list(batches))


@pytest.mark.parametrize("processes", [0, 2])
def test_data_loader_resumes_at_a_step_without_touching_the_generators(processes: int) -> None:
    """The recipe of docs/explain/jobs.md."""
    order = DataOrder(90, 12, seed=7, version=FORMULA)
    before = torch.get_rng_state()
    batches = order.batches(range(3, 16), 0, 2, 4)
    loader = DataLoader(
        TensorDataset(torch.arange(90)), batch_sampler=batches, generator=torch.Generator(), num_workers=processes
    )
    read = iter(loader)
    for step in range(3, 16):
        for indices, _ in order.pieces(step, 0, 2, 4):
            assert next(read)[0].tolist() == indices
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("samples", "batch"), [(0, 1), (1, 0)])
def test_nothing_to_train_on_is_refused(samples: int, batch: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        DataOrder(samples, batch, seed=7)
