"""The parts of an environment that rules look at, each with its key."""

from collections.abc import Iterable, Iterator

from config.catalogue import catalogue
from config.model import Environment, InstanceGroup, RayCluster, RayHead, RayWorkers
from config.model.base import Model


def groups(environment: Environment) -> Iterator[tuple[str, InstanceGroup]]:
    """Each instance group."""
    for n, group in enumerate(environment.hyperpod.instance_groups):
        yield f"hyperpod.instance_groups.{n}", group


def known_groups(environment: Environment) -> Iterator[tuple[str, InstanceGroup]]:
    """Each instance group whose type and threads per core other rules have not refused."""
    for key, group in groups(environment):
        if is_known(group) and group.threads_per_core in group.type.threads_per_core:
            yield key, group


def is_known(group: InstanceGroup) -> bool:
    """Whether the figures of the group's type are known."""
    return group.instance_type.startswith("ml.") and bool(group.type_facts or group.instance_type in catalogue())


def by_name(environment: Environment) -> dict[str, InstanceGroup]:
    """The groups of `known_groups` by their names."""
    return {group.name: group for _, group in known_groups(environment)}


def clusters(environment: Environment) -> Iterator[tuple[str, RayCluster]]:
    """Each RayCluster."""
    for n, cluster in enumerate(environment.ray.clusters):
        yield f"ray.clusters.{n}", cluster


def heads(environment: Environment) -> Iterator[tuple[str, RayHead]]:
    """The head of each RayCluster."""
    for key, cluster in clusters(environment):
        yield f"{key}.head", cluster.head


def workers(environment: Environment) -> Iterator[tuple[str, RayWorkers]]:
    """Each worker group of each RayCluster."""
    for key, cluster in clusters(environment):
        for n, group in enumerate(cluster.workers):
            yield f"{key}.workers.{n}", group


def ray_pods(environment: Environment) -> Iterator[tuple[str, RayHead | RayWorkers]]:
    """Heads and worker groups."""
    yield from heads(environment)
    yield from workers(environment)


def said_of_a_new(what: str, path: str, part: Model, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of `keys` that describe a new one although `<path>.existing` is used: nothing of it is changed, so that
    nobody would read them.
    """
    for key in keys:
        if key in part.model_fields_set:
            yield f"{path}.{key}", f"describes a new {what}; leave it out beside {path}.existing"


def repeated(names: list[str]) -> list[str]:
    """Return the names that stand there more than once."""
    return sorted({name for name in names if names.count(name) > 1})
