"""List the parts of an environment that rules check, each with its key."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, collapse_addresses
from types import MappingProxyType
from typing import Final

from config.facts.instance_types import catalogue
from config.model import EksEnvironment, Environment, InstanceGroup, RayCluster, RayHead, RayWorkers
from config.model.base import Model
from config.rules.rule import Violation

LEAST_OF_HEAD: Final = MappingProxyType({"cpu": 2, "memory_gib": 8})
"""What a head requests at least: a smaller one's probes fail under load (ray-project/kuberay #2353, #3468)."""
_EVERYWHERE: Final = IPv4Network("0.0.0.0/0")
# Addresses that no client of a public endpoint has: private ones, and IANA's special-purpose and multicast blocks.
# Python's `is_private` would also include the addresses of examples (203.0.113.0/24 and others).
_RESERVED: Final = tuple(
    IPv4Network(block)
    for block in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("0.0.0.0/8", "224.0.0.0/3"),
    )
)


def groups(environment: Environment) -> list[tuple[str, InstanceGroup]]:
    """Return the instance groups."""
    return [(f"hyperpod.instance_groups.{n}", group) for n, group in enumerate(environment.hyperpod.instance_groups)]


def known_groups(environment: Environment) -> Iterator[tuple[str, InstanceGroup]]:
    """Yield each instance group whose type and threads per core other rules accept."""
    for key, group in groups(environment):
        if is_known(group) and group.threads_per_core in group.type.threads_per_core:
            yield key, group


def is_known(group: InstanceGroup) -> bool:
    """Return whether the figures of the group's type are known."""
    return group.instance_type.startswith("ml.") and bool(group.type_facts or group.instance_type in catalogue())


def by_name(environment: Environment) -> dict[str, InstanceGroup]:
    """Return the groups of `known_groups` by their names."""
    return {group.name: group for _, group in known_groups(environment)}


def clusters(environment: EksEnvironment) -> list[tuple[str, RayCluster]]:
    """Return the RayClusters."""
    return [(f"ray.clusters.{n}", cluster) for n, cluster in enumerate(environment.ray.clusters)]


def heads(environment: EksEnvironment) -> Iterator[tuple[str, RayHead]]:
    """Yield the head of each RayCluster; one after the other, as a part of an environment can lack any of them."""
    for key, cluster in clusters(environment):
        yield f"{key}.head", cluster.head


def workers(environment: EksEnvironment) -> Iterator[tuple[str, RayWorkers]]:
    """Yield each worker group of each RayCluster."""
    for key, cluster in clusters(environment):
        for n, group in enumerate(cluster.workers):
            yield f"{key}.workers.{n}", group


def ray_pods(environment: EksEnvironment) -> Iterator[tuple[str, RayHead | RayWorkers]]:
    """Yield heads and worker groups."""
    yield from heads(environment)
    yield from workers(environment)


def lowered(pod: RayHead | RayWorkers, name: str, most: float) -> tuple[str, ...]:
    """Return the fix that names the most that a pod can request, or nothing if a head needs more."""
    return () if isinstance(pod, RayHead) and most < LEAST_OF_HEAD[name] else (f"write {most}",)


def described_twice(what: str, path: str, part: Model, keys: Iterable[str]) -> Iterator[Violation]:
    """Yield a violation for each of `keys` that is set beside `<path>.existing`, where nothing would read it."""
    for key in keys:
        if key in part.model_fields_set:
            yield Violation(
                f"{path}.{key}",
                f"it describes a new {what}, and {path}.existing uses an existing one unchanged",
                f"{path}.existing without {key}",
                f"remove {key}, or {path}.existing",
            )


def repeated(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the names that are listed more than once, with their numbers in the list."""
    places: dict[str, list[int]] = {}
    for n, name in enumerate(names):
        places.setdefault(name, []).append(n)
    return {name: numbers for name, numbers in places.items() if len(numbers) > 1}


def same_names(path: str, names: Iterable[str], key: str = "name") -> Iterator[Violation]:
    """Yield one violation for each name that is listed more than once at `path`."""
    for name, (first, second, *_) in repeated(names).items():
        place = f"{path}.{second}.{key}" if key else f"{path}.{second}"
        other = f"{path}.{first}"
        yield Violation(place, f"{other} is the same", "each once", "change or delete one of them", repr(name))


def are_the_whole_world(blocks: Iterable[IPv4Network]) -> bool:
    """Return whether the blocks contain all addresses of the internet."""
    return _EVERYWHERE in collapse_addresses(blocks)


def is_reserved(block: IPv4Network) -> bool:
    """Return whether the block has addresses that no client of a public endpoint has."""
    return any(block.overlaps(reserved) for reserved in _RESERVED)
