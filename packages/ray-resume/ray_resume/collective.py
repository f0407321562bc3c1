"""Operations that all workers of a group perform together, without waiting for a worker that has given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch.distributed as dist

from ray_resume.checkpoint_store import StaleAttemptError

_Value = TypeVar("_Value")


def world_size() -> int:
    """Return the number of workers."""
    return dist.get_world_size() if dist.is_initialized() else 1


def by_rank_0(
    call: Callable[[], Any], group: dist.ProcessGroup | None = None, *, errors: tuple[type[Exception], ...] = ()
) -> Any:
    """Run `call` at rank 0; return or raise the outcome at every worker. `group` is that of the training by default.

    Raised at every worker are OSError, StaleAttemptError and `errors`.
    """
    answer: list[Any] = [None, None]
    caught: tuple[type[Exception], ...] = (OSError, StaleAttemptError, *errors)
    if not dist.is_initialized() or dist.get_rank() == 0:
        try:
            answer = [call(), None]
        except caught as error:
            answer = [None, error]
    if dist.is_initialized():
        dist.broadcast_object_list(answer, group=group)
    result, failure = answer
    if failure:
        raise failure
    return result


def gathered(value: _Value, group: dist.ProcessGroup | None = None) -> list[_Value]:
    """Return the values of all workers, by rank."""
    values = [value]
    if dist.is_initialized():
        values = [value] * dist.get_world_size()
        dist.all_gather_object(values, value, group=group)
    return values


def agree(failure: str | None, kind: type[Exception], group: dist.ProcessGroup | None = None) -> None:
    """Raise `kind` at every worker if any has a `failure`, so that no worker waits for one that has given up."""
    raise_first(gathered(failure, group), kind)


def raise_first(failures: Sequence[str | None], kind: type[Exception]) -> None:
    """Raise `kind` with the first failure of all workers', by rank, if there is one."""
    first = next((f"worker {rank}: {text}" for rank, text in enumerate(failures) if text), None)
    if first:
        raise kind(first)
