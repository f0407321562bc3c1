"""Identify each change by a digest of what was and what becomes: an approval covers this change and no other."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ops.review.assembly import Assembly, Pair, ResourceChange
from ops.review.model import Change


def identified(pair: Pair, differing: Sequence[ResourceChange], changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes with their digests.

    A change is bound to both declarations of its resources. If none of them differs, it follows from other resources,
    or is about a stack: it is bound to all that differs in the environment.
    """
    declared = {each.address: [each.address, each.before, each.after] for each in differing}
    everything = _stacks(pair)
    for change in changes:
        own = [declared[address] for address in change.addresses if address in declared]
        yield replace(change, digest=digest(pair.environment, change, own or everything))


def digest(environment: str, change: Change, values: Any) -> str:
    """Return the digest of a change with these JSON-like values.

    It is not shortened: nobody must be able to choose values so that a second change gets the digest of the first.
    """
    words = [environment, change.stack, change.resource, change.what, change.effect]
    return hashlib.sha256(json.dumps([words, values], sort_keys=True).encode()).hexdigest()


def _stacks(pair: Pair) -> list[Any]:
    """Return both sides of each stack that differs."""
    before, after = (_described(assembly) for assembly in (pair.base, pair.head))
    parts = sorted(before.keys() | after.keys())
    return [[part, before.get(part), after.get(part)] for part in parts if before.get(part) != after.get(part)]


def _described(assembly: Assembly | None) -> dict[str, Any]:
    stacks = assembly.stacks if assembly else {}
    return {part: [stack.name, stack.settings, stack.template] for part, stack in stacks.items()}
