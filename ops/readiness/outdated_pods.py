"""Find Ray pods that KubeRay 1.2.0 keeps although their RayCluster has changed. Nothing here calls an API.

KubeRay only counts the pods of each group in the spec: a changed template affects new pods only, and pods of a removed
or renamed group keep running (raycluster_controller.go, reconcilePods).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config.labels import PAUSED, TEMPLATE_LABEL
from k8s_charts.ray.template_hash import template_of

Json = Mapping[str, Any]


@dataclass(frozen=True)
class OutdatedPods:
    """Pods that are not terminating: `old` differ from their group's template, `orphans` belong to a removed group."""

    old: tuple[Any, ...]
    orphans: tuple[Any, ...]

    def phrases(self) -> Iterator[str]:
        """Yield a phrase for the old pods and one for the orphans, if there are any."""
        if self.old:
            yield f"{counted(self.old)} with an old template"
        if self.orphans:
            groups = ", ".join(sorted({group_of(pod) for pod in self.orphans}))
            yield f"{counted(self.orphans)} of a removed group ({groups})"


def outdated(cluster: Json, pods: Sequence[Any]) -> OutdatedPods:
    """Return the RayCluster's outdated pods. In a group without a hash (applied by others) no pod counts as old."""
    spec = cluster.get("spec", {})
    workers = {group["groupName"]: template_of(group) for group in spec.get("workerGroupSpecs", [])}
    head = template_of(spec["headGroupSpec"]) if "headGroupSpec" in spec else None
    old, orphans = [], []
    for pod in pods:
        if pod.metadata.deletion_timestamp:
            continue
        if is_worker(pod) and group_of(pod) not in workers:
            orphans.append(pod)
            continue
        wanted = workers[group_of(pod)] if is_worker(pod) else head
        if wanted is not None and _labels(pod).get(TEMPLATE_LABEL) != wanted:
            old.append(pod)
    return OutdatedPods(tuple(old), tuple(orphans))


def is_suspended(cluster: Json) -> bool:
    """Return whether the RayCluster is suspended. Its `status.state` still says so for a while after a resume."""
    return bool(cluster.get("spec", {}).get("suspend"))


def is_paused(cluster: Json) -> bool:
    """Return whether `ops pause` suspended the RayCluster: its nodes are gone, and only `ops resume` helps."""
    return PAUSED in (cluster.get("metadata", {}).get("annotations") or {})


def counted(pods: Sequence[Any]) -> str:
    """Return the number of pods in words, such as `1 pod`."""
    return f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"


def _labels(pod: Any) -> Mapping[str, str]:
    return pod.metadata.labels or {}


def is_worker(pod: Any) -> bool:
    """Return whether the pod is a worker; else it is a head."""
    return _labels(pod).get("ray.io/node-type") == "worker"


def group_of(pod: Any) -> str:
    """Return the name of the pod's worker group."""
    return _labels(pod).get("ray.io/group", "")
