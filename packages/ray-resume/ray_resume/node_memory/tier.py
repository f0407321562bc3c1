"""The memory tier of a HyperPod cluster: it keeps bytes by namespace, rank and step in the memory of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Final, Protocol, TypeVar

from ray_resume.saving import in_background

RETAINED: Final = 3
"""Steps of a namespace that the tier keeps: two complete ones, and the one that is written."""
_Result = TypeVar("_Result")


class TierError(OSError):
    """The memory tier failed, or does not have what it should."""


class MemoryTier(Protocol):
    """What a run uses of a memory tier. Every method raises TierError."""

    def create(self, namespace: str, ranks: int) -> None:
        """Make room for parts of so many ranks."""

    def put(self, namespace: str, rank: int, step: int, file: Path) -> None:
        """Keep the content of a file as the part of a rank."""

    def seal(self, namespace: str, ranks: int, step: int, content: bytes) -> None:
        """Mark the parts of all ranks as complete; `content` describes them."""

    def get(self, namespace: str, rank: int, step: int) -> bytes | None:
        """Return the part of a rank; None if the tier does not have it."""

    def delete(self, namespace: str) -> None:
        """Delete all that the tier keeps under a namespace."""


def bounded(call: Callable[[], _Result], seconds: float) -> _Result:
    """Return the result of `call`, or raise its error.

    Raises:
        TierError: it takes longer than `seconds`. It then continues in a thread that ends with the process.
    """
    results: list[_Result] = []
    outcome = in_background(lambda: results.append(call()))
    try:
        outcome.result(timeout=seconds)
    except futures.TimeoutError as error:  # before Python 3.11 not the built-in one
        if outcome.done():
            raise
        raise TierError(f"no answer within {seconds:g} s") from error
    return results[0]
