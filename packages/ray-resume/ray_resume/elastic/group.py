"""One group of workers of an elastic run, and how its driver lets it end after a checkpoint.

The driver's wish is a key in the memory of Ray's head, next to the reports of steps. After each checkpoint the workers
ask rank 0 for it, in one collective call, so that all of them end after the same step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import ray.train
from ray.experimental import internal_kv

from ray_resume.collective import by_rank_0

_NAMESPACE: Final = b"ray_resume.elastic"

_current: ElasticGroup | None = None
"""The group to which this process belongs; a worker trains in one at a time."""


class GroupEndedError(BaseException):
    """The workers end after a checkpoint, and others continue. No `except Exception` of a script may stop it."""


@dataclass(frozen=True)
class ElasticGroup:
    """A group of `size` workers of a run that may have `full`; `id` is no other group's."""

    name: str
    id: str
    size: int
    full: int

    def ask(self, size: int | None) -> None:
        """Let the workers end after their next checkpoint, because `size` can continue; None: let them train on."""
        _put(self._asked, None if size is None else str(size))

    def asked(self) -> int | None:
        """Return what the driver asked for last."""
        value = _get(self._asked)
        return int(value) if value else None

    def begin(self) -> None:
        """Record that the workers have begun; Ray Train may have started them again after a loss."""
        _put(self._ended, None)
        _put(self._began, "yes")

    def has_begun(self) -> bool:
        """Return whether the workers have begun."""
        return _get(self._began) is not None

    def end(self, size: int) -> None:
        """Record that the workers end for `size` others."""
        _put(self._ended, str(size))

    def ended(self) -> int | None:
        """Return for how many workers this group ended; None if it ended for another reason."""
        value = _get(self._ended)
        return int(value) if value else None

    @property
    def _began(self) -> bytes:
        return f"{self.id}/began".encode()

    @property
    def _asked(self) -> bytes:
        return f"{self.id}/asked".encode()

    @property
    def _ended(self) -> bytes:
        return f"{self.id}/ended".encode()


def train_in(group: ElasticGroup, train: Callable[[], None]) -> None:
    """Train in one worker of a group, until the training or the group ends."""
    global _current  # noqa: PLW0603 - the train function reaches `Checkpoints` without the group
    if ray.train.get_context().get_world_rank() == 0:
        group.begin()
    _current = group
    try:
        with contextlib.suppress(GroupEndedError):
            train()
    finally:
        _current = None


def end_if_asked(complete: Callable[[], None]) -> None:
    """End the workers if the driver has asked for it; `complete` lets their last checkpoint be written.

    All workers call it together, after each checkpoint but the last.

    Raises:
        GroupEndedError: the workers end.
    """
    group = _current
    if group is None:
        return
    size = by_rank_0(lambda: _or_none(group.asked))
    if size is None:
        return
    complete()
    by_rank_0(lambda: group.end(size))
    raise GroupEndedError


def _or_none(asked: Callable[[], int | None]) -> int | None:
    # Whatever the error is, the next checkpoint is another occasion; other workers must not wait for rank 0.
    with contextlib.suppress(Exception):
        return asked()
    return None


def _put(key: bytes, value: str | None) -> None:
    if value is None:
        internal_kv._internal_kv_del(key, namespace=_NAMESPACE)
    else:
        internal_kv._internal_kv_put(key, value.encode(), namespace=_NAMESPACE)


def _get(key: bytes) -> bytes | None:
    value: bytes | None = internal_kv._internal_kv_get(key, namespace=_NAMESPACE)
    return value
