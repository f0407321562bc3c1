"""Ray pods that KubeRay 1.2.0 leaves alone although their RayCluster was changed: nothing here calls an API.

It counts the pods of each group in the spec, so that a changed template reaches new pods only, and pods of a group
that was removed or renamed run on (raycluster_controller.go, reconcilePods).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config.labels import TEMPLATE_LABEL
from k8s_charts.ray.template_hash import template_of

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Outdated:
    """Pods that are not about to end: `old` have another template than their group, `orphans` a group that is gone."""

    old: tuple[Any, ...]
    orphans: tuple[Any, ...]

    def said(self) -> Iterator[str]:
        """What a person reads of each kind, if there are any."""
        if self.old:
            yield f"{counted(self.old)} of an old template"
        if self.orphans:
            groups = ", ".join(sorted({_group(pod) for pod in self.orphans}))
            yield f"{counted(self.orphans)} of a group that is gone ({groups})"


def outdated(cluster: Json, pods: Sequence[Any]) -> Outdated:
    """Sort out the RayCluster's pods. Of a group that carries no hash (applied by others) no pod is old."""
    spec = cluster.get("spec", {})
    workers = {group["groupName"]: template_of(group) for group in spec.get("workerGroupSpecs", [])}
    head = template_of(spec["headGroupSpec"]) if "headGroupSpec" in spec else None
    old, orphans = [], []
    for pod in pods:
        if pod.metadata.deletion_timestamp:
            continue
        if _is_worker(pod) and _group(pod) not in workers:
            orphans.append(pod)
            continue
        wanted = workers[_group(pod)] if _is_worker(pod) else head
        if wanted is not None and _labels(pod).get(TEMPLATE_LABEL) != wanted:
            old.append(pod)
    return Outdated(tuple(old), tuple(orphans))


def is_suspended(cluster: Json) -> bool:
    """Whether it shall have no pods. Its `status.state` says so for a while after it was resumed, too."""
    return bool(cluster.get("spec", {}).get("suspend"))


def counted(pods: Sequence[Any]) -> str:
    """How many pods."""
    return f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"


def _labels(pod: Any) -> Mapping[str, str]:
    return pod.metadata.labels or {}


def _is_worker(pod: Any) -> bool:
    return _labels(pod).get("ray.io/node-type") == "worker"


def _group(pod: Any) -> str:
    return _labels(pod).get("ray.io/group", "")
