"""Order the resources of a stack by their references, and run actions in that order in parallel."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.templates.intrinsics import Intrinsics

Key = TypeVar("Key", bound=Hashable)

AT_ONCE = 12
"""How many resources of one stack are worked on at once."""


def dependencies(resources: Mapping[str, dict[str, Any]], intrinsics: Intrinsics) -> dict[str, frozenset[str]]:
    """Return for each resource the resources that must exist before it.

    `resources` are the resources whose conditions hold. Raises RefusedCallError for circular references and for
    references to other resources.
    """
    known = {logical_id: _dependencies_of(definition, intrinsics) for logical_id, definition in resources.items()}
    missing = sorted({name for names in known.values() for name in names if name not in resources})
    if missing:
        raise invalid(
            f"Template format error: Unresolved resource dependencies [{', '.join(missing)}] in the Resources "
            "block of the template"
        )
    _refuse_circles(known)
    return known


def _dependencies_of(definition: Mapping[str, Any], intrinsics: Intrinsics) -> frozenset[str]:
    explicit = definition.get("DependsOn", [])
    names = [explicit] if isinstance(explicit, str) else explicit
    references = intrinsics.resource_references(definition.get("Properties", {}))
    return frozenset([*names, *(reference.name for reference in references)])


def _refuse_circles(known: Mapping[str, frozenset[str]]) -> None:
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        circle = sorted(set(error.args[1]))
        raise invalid(f"Circular dependency between resources: [{', '.join(circle)}]") from error


def reverse(graph: Mapping[Key, Collection[Key]]) -> dict[Key, set[Key]]:
    """Return the graph with every edge reversed."""
    turned: dict[Key, set[Key]] = {node: set() for node in graph}
    for node, before in graph.items():
        for other in before:
            if other in turned:
                turned[other].add(node)
    return turned


def walk(
    graph: Mapping[Key, Iterable[Key]], action: Callable[[Key], None], *, stop_on_failure: bool
) -> dict[Key, Exception]:
    """Call `action` for every node after the nodes that it depends on; independent nodes run in parallel.

    Returns the failures. Nodes that depend on a failed node are skipped; with `stop_on_failure` no new action starts
    after the first failure. Running actions are always waited for.
    """
    before = {node: {other for other in others if other in graph} for node, others in graph.items()}
    failures: dict[Key, Exception] = {}
    done: set[Key] = set()
    running: dict[Future[None], Key] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="cloudformation") as pool:
        waiting = list(graph)
        while True:
            if not (failures and stop_on_failure):
                ready = [node for node in waiting if before[node] <= done]
                running |= {pool.submit(action, node): node for node in ready}
                waiting = [node for node in waiting if not before[node] <= done]
            if not running:
                return failures
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                node = running.pop(future)
                error = future.exception()
                if isinstance(error, Exception):
                    failures[node] = error
                elif error is not None:
                    raise error
                else:
                    done.add(node)
