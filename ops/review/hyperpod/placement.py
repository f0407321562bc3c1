"""Tell whether Ray's pods can run on an instance group after a change of its labels or taints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ops.review.assembly import Assembly
from ops.review.kubernetes.objects import applied, groups_of
from ops.review.model import Effect

Taint = tuple[str, str, str]
"""Key, value, effect."""
_NO_EXECUTE: Final = "NoExecute"
_PREFERENCE: Final = "PreferNoSchedule"


@dataclass(frozen=True)
class RayPods:
    """The pods of one head or worker group, by the template."""

    cluster: str
    """The RayCluster, and its head or worker group: `rayml (gpu-group)`."""
    group: str
    """The instance group that they select."""
    selector: Mapping[str, str]
    tolerations: Sequence[Mapping[str, Any]]

    def tolerate(self, taint: Taint) -> bool:
        """Return whether the pods tolerate the taint for as long as they run."""
        return any(_tolerates(each, taint) for each in self.tolerations)


def ray_pods(assembly: Assembly | None, group: str) -> list[RayPods]:
    """Return Ray's pods that select the instance group."""
    return [pods for pods in _all(assembly) if pods.group == group] if assembly else []


def of_taint(taint: Taint, before: Sequence[RayPods], after: Sequence[RayPods]) -> tuple[Effect, str]:
    """Return the effect of an added taint, and why, for the pods of both templates."""
    key, _, effect = taint
    if effect == _PREFERENCE:
        return Effect.IN_PLACE, f"Pods avoid nodes with the taint {key} where they can."
    if not before and not after and effect != _NO_EXECUTE:
        return Effect.IN_PLACE, "No pods of Ray select the group."
    if before and all(pods.tolerate(taint) for pods in (*before, *after)):
        return Effect.IN_PLACE, f"Ray's pods of the group tolerate the taint {key}; other pods do not."
    if effect == _NO_EXECUTE:
        return Effect.ENDS_JOBS, f"Pods that run without a toleration of the taint {key} are evicted, Ray's included."
    if all(pods.tolerate(taint) for pods in after):
        return Effect.NEEDS_ROLLOUT, f"Ray's pods that run are kept, but start again only with a toleration of {key}."
    return Effect.ENDS_JOBS, f"Ray's pods of the group do not tolerate the taint {key}: once they end, none starts."


def of_labels(
    removed: Mapping[str, Any], labels: Mapping[str, Any], before: Sequence[RayPods], after: Sequence[RayPods]
) -> tuple[Effect, str]:
    """Return the effect of labels that lose their values, and why; `labels` are those of the nodes afterwards."""
    for pods, effect, whose in ((after, Effect.ENDS_JOBS, "new"), (before, Effect.NEEDS_ROLLOUT, "present")):
        for each in pods:
            if missed := sorted(
                key for key in removed if key in each.selector and each.selector[key] != labels.get(key)
            ):
                return effect, f"The {whose} template of Ray's pods selects {', '.join(missed)}: none of them starts."
    return Effect.IN_PLACE, "Ray's pods do not select these labels."


def _all(assembly: Assembly) -> Iterator[RayPods]:
    for found in applied(assembly, "RayCluster"):
        spec = found.body.get("spec", {})
        for part in [spec.get("headGroupSpec", {}), *spec.get("workerGroupSpecs", [])]:
            pod = part.get("template", {}).get("spec", {})
            selector = pod.get("nodeSelector", {})
            name = f"{found.name} ({part.get('groupName', 'head')})"
            for group in groups_of(pod):
                yield RayPods(name, group, selector, pod.get("tolerations", []))


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Return whether Kubernetes matches the toleration with the taint (API reference, Toleration)."""
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect) or "tolerationSeconds" in toleration:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", key)
    return toleration.get("key") == key and (toleration.get("value") or "") == value
