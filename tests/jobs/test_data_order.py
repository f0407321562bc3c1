"""Each epoch takes every sample once, and the global batch is the same for any number of workers."""

import pytest

from data_order import DataOrder


@pytest.mark.parametrize(("samples", "batch"), [(90, 12), (96, 12), (5, 12), (1, 1), (100, 7)])
def test_epoch_takes_every_sample_once(samples: int, batch: int) -> None:
    order = DataOrder(samples, batch, seed=7)
    for epoch in range(3):
        steps = range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch)
        taken = [index for step in steps for index in order.indices(step)]
        assert sorted(taken) == list(range(samples))


def test_epochs_differ_and_are_told_by_the_seed_alone() -> None:
    one, same, other = DataOrder(50, 50, seed=1), DataOrder(50, 50, seed=1), DataOrder(50, 50, seed=2)
    assert one.indices(0) == same.indices(0)
    assert one.indices(0) != one.indices(1)
    assert one.indices(0) != other.indices(0)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("piece", [1, 3, 64])
@pytest.mark.parametrize("step", [0, 7, 8])
def test_workers_share_a_global_batch_without_rest_or_repetition(workers: int, piece: int, step: int) -> None:
    order = DataOrder(90, 12, seed=7)
    shares = [order.pieces(step, rank, workers, piece) for rank in range(workers)]
    weighted = [index for share in shares for indices, weight in share if weight for index in indices]
    assert sorted(weighted) == sorted(order.indices(step))
    assert len({len(share) for share in shares}) == 1, "unequal numbers of pieces would hang a collective operation"
    assert all(0 < len(indices) <= piece for share in shares for indices, _ in share)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 16])
def test_weighted_mean_over_workers_is_the_mean_of_the_global_batch(workers: int) -> None:
    order = DataOrder(90, 12, seed=7)
    for step in (0, order.steps_per_epoch - 1):
        losses = {index: float(index * index) for index in order.indices(step)}
        mean = sum(
            weight * sum(losses[index] for index in indices) / len(indices)
            for rank in range(workers)
            for indices, weight in order.pieces(step, rank, workers, piece=2)
        )
        assert mean / workers == pytest.approx(sum(losses.values()) / len(losses))


@pytest.mark.parametrize(("samples", "batch"), [(0, 1), (1, 0)])
def test_nothing_to_train_on_is_refused(samples: int, batch: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        DataOrder(samples, batch, seed=7)
