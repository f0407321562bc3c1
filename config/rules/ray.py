"""Rules of KubeRay and the RayClusters."""

from collections.abc import Iterator

from config import versions
from config.model import Environment
from config.rules.rule import error


@error("V13")
def head_size(environment: Environment) -> Iterator[tuple[str, str]]:
    """A head with less loses its probes under load."""
    for n, cluster in enumerate(environment.ray.clusters):
        for name, size, least in (("cpu", cluster.head.cpu, 2), ("memory_gib", cluster.head.memory_gib, 8)):
            if size < least:
                yield f"ray.clusters.{n}.head.{name}", f"{size}; allowed: {least} and more"


@error("V14")
def supported_versions(environment: Environment) -> Iterator[tuple[str, str]]:
    """The versions that image and charts are locked for."""
    for key, version, allowed in (
        ("kuberay.version", environment.kuberay.version, versions.KUBERAY),
        ("ray.version", environment.ray.version, versions.RAY),
    ):
        if version != allowed:
            yield key, f"{version!r}; allowed: {allowed}"


@error("V27")
def instance_groups_of_ray(environment: Environment) -> Iterator[tuple[str, str]]:
    """Ray's pods are placed by the name of an instance group."""
    known = [group.name for group in environment.hyperpod.instance_groups]
    for n, cluster in enumerate(environment.ray.clusters):
        places = {"head": cluster.head.instance_group}
        places |= {f"workers.{m}": workers.instance_group for m, workers in enumerate(cluster.workers)}
        for place, group in places.items():
            if group not in known:
                key = f"ray.clusters.{n}.{place}.instance_group"
                yield key, f"no instance group {group!r}; allowed: {', '.join(known)}"


@error("V28")
def replicas_within_bounds(environment: Environment) -> Iterator[tuple[str, str]]:
    """The CRD has no such rule, and the operator follows what it finds (KubeRay 1.2.0)."""
    for n, cluster in enumerate(environment.ray.clusters):
        for m, workers in enumerate(cluster.workers):
            if not workers.min_replicas <= workers.replicas <= workers.max_replicas:
                yield (
                    f"ray.clusters.{n}.workers.{m}.replicas",
                    f"{workers.replicas}; allowed: between min_replicas {workers.min_replicas} "
                    f"and max_replicas {workers.max_replicas}",
                )
