"""Run all finders, and remove what they found."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from botocore.exceptions import ClientError

from ops.sweep.finders import FINDERS
from ops.sweep.leftover import Finder, Leftover, Surface

_AT_ONCE: Final = 4
_REFUSED: Final = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}


@dataclass(frozen=True)
class SweepResult:
    """What a sweep found, and the kinds that the caller may not look for."""

    leftovers: tuple[Leftover, ...]
    not_seen: tuple[str, ...]


def find(surface: Surface) -> SweepResult:
    """Return every leftover of the environment, in the order of the removal."""
    # Fills the cache that the finders share, before they run in parallel.
    surface.owned  # noqa: B018
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        results = list(workers.map(lambda finder: _search(finder, surface), FINDERS))
    leftovers = [each for found in results if isinstance(found, list) for each in found]
    return SweepResult(tuple(leftovers), tuple(each for each in results if isinstance(each, str)))


def remove(leftovers: Sequence[Leftover], say: Callable[[str], None]) -> list[str]:
    """Remove the leftovers in order; return what could not be removed, as `kind id: reason`."""
    failed = []
    for each in leftovers:
        try:
            each.remove()
        except ClientError as error:
            failed.append(f"{each.kind} {each.id}: {error.response['Error'].get('Message', 'no reason given')}")
        else:
            say(f"removed {each.kind} {each.id}")
    return failed


def _search(finder: Finder, surface: Surface) -> list[Leftover] | str:
    try:
        return list(finder(surface))
    except ClientError as error:
        if error.response["Error"]["Code"] in _REFUSED:
            return f"{finder.__name__.replace('_', ' ')}: no permission to read ({error.operation_name})"
        raise
