"""The dependencies between slow resources, and between stacks, of a synthesised assembly."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from config.estimates import creation
from ops.review.assembly import stable
from rehearsal.report import expected
from rehearsal.report.timeline import Band, Bar

SLOW_MINUTES: Final = 0.2
"""Resources that typically take longer to create or delete are slow."""


def is_slow(resource_type: str) -> bool:
    """Return whether the type's creation or deletion takes noticeable time."""
    return max(creation.of_type(resource_type).typical, creation.of_deletion(resource_type).typical) >= SLOW_MINUTES


def part(stack: str) -> str:
    """Return the part of an environment that a stack of this name is."""
    return stack.rpartition("-")[2]


def between_stacks(assembly: Path) -> set[str]:
    """Return each direct dependency of a stack, such as `storage > network`, without those that others imply."""
    return {f"{part(name)} > {part(used)}" for name, used in _reduced(expected.upstream(assembly))}


def between_resources(band: Band) -> set[str]:
    """Return each dependency between the slow resources of a stack, such as `SystemNodes > AddOnvpccni`.

    Dependencies through quick resources count; those that others imply do not. Names are logical ids without a hash.
    """
    return {f"{stable(name)} > {stable(used)}" for name, used in _reduced(slow_edges(band))}


def slow_bars(band: Band) -> list[Bar]:
    """Return the slow resources of a stack, each with the slow ones that it waits for."""
    edges = slow_edges(band)
    return [replace(bar, waited_for=tuple(sorted(edges[bar.name]))) for bar in band.bars if bar.name in edges]


def slow_edges(band: Band) -> dict[str, frozenset[str]]:
    """Return for each slow resource the slow ones that it waits for, directly or through quick ones."""
    bars = {bar.name: bar for bar in band.bars}
    slow = {name for name, bar in bars.items() if is_slow(bar.type)}

    @cache
    def awaited(name: str) -> frozenset[str]:
        used = [each for each in bars[name].waited_for if each in bars]
        return frozenset().union(*({each} if each in slow else awaited(each) for each in used))

    return {name: awaited(name) for name in bars if name in slow}


def _reduced(graph: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    @cache
    def all_of(name: str) -> frozenset[str]:
        return frozenset(graph[name]).union(*(all_of(each) for each in graph[name]))

    for name, used in graph.items():
        yield from ((name, each) for each in used if not any(each in all_of(other) for other in used))
