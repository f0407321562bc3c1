"""Judge one environment: a change that no rule knows has an unknown effect, so that the gate stops it."""

from collections.abc import Iterator

from ops.review.assembly import Pair, resource_changes
from ops.review.model import Change, Danger, Effect, EnvironmentVerdict


def judge(pair: Pair) -> EnvironmentVerdict:
    """Return the verdict on both sides of an environment.

    Raises ReviewError if an assembly cannot be read.
    """
    return EnvironmentVerdict(pair.environment, tuple(_unknown(pair)))


def _unknown(pair: Pair) -> Iterator[Change]:
    for each in resource_changes(pair):
        what = ", ".join(each.changed_properties) or "the resource differs"
        resource = f"{each.type} {each.logical_id}"
        yield Change(each.stack, resource, resource, what, Effect.UNKNOWN, dangers=frozenset({Danger.UNKNOWN}))
