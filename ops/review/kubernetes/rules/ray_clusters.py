"""Review RayClusters by what KubeRay 1.2.0 does with a changed one (ADR 23, docs/operate/kuberay.md)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from config.labels import TEMPLATE_LABEL
from ops.review.consequences import ReviewFinding, endangers, unknown
from ops.review.kubernetes.deltas import Delta, at, deltas, fields, others, summary
from ops.review.kubernetes.objects import Body, groups_of
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.pods.template import review_pod
from ops.review.kubernetes.rules.pods.words import in_words
from ops.review.model import Danger, Effect
from ops.review.scripts import dangerous_lines
from ops.review.steps import operator_after, operator_before, steps

_NO_ROLL: Final = "Running pods keep the old template until the rollout; KubeRay uses the new one for new pods only."
_NUMBERS: Final = ("replicas", "minReplicas", "maxReplicas")
# What the CRD fills in.
_NO_MAXIMUM: Final = 2147483647
_GROUP_FIELDS: Final = frozenset({*_NUMBERS, "groupName", "rayStartParams", "template", "numOfHosts", "scaleStrategy"})
_HEAD_FIELDS: Final = frozenset({"rayStartParams", "template", "serviceType", "headService", "enableIngress"})
_SPEC_FIELDS: Final = frozenset(
    {
        "rayVersion",
        "enableInTreeAutoscaling",
        "autoscalerOptions",
        "headGroupSpec",
        "workerGroupSpecs",
        "suspend",
        "headServiceAnnotations",
    }
)
_AUTOSCALERS_CONTAINER: Final = ("env", "envFrom", "image", "resources", "securityContext", "volumeMounts")
_POD_ANNOTATIONS: Final = ("ray.io/ft-enabled", "ray.io/overwrite-container-cmd", "ray.io/external-storage-namespace")


@dataclass(frozen=True)
class _Cluster:
    """Where a RayCluster is, and the command that replaces its pods."""

    namespace: str
    rollout: str
    context: RuleContext


def review_ray_cluster(before: Body | None, after: Body, context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a RayCluster's change does to its pods."""
    name = str(after["metadata"]["name"])
    if before is not None and before["metadata"]["name"] != name:
        before = None
    rollout = operator_after(f"run `ops rollout {name} --env {context.environment}`, which ends its jobs")
    cluster = _Cluster(str(after["metadata"].get("namespace", "")), rollout, context)
    yield from _exposure(before, after)
    old, new = at(before, "spec") or {}, at(after, "spec") or {}
    yield from _group("head", old.get("headGroupSpec"), new.get("headGroupSpec"), cluster)
    yield from _worker_groups(old, new, cluster)
    yield from _autoscaler(old, new, cluster)
    if before is not None:
        yield from _spec(before, after, rollout)


def _autoscaler(old: Any, new: Any, cluster: _Cluster) -> Iterator[ReviewFinding]:
    """Yield the dangers of `autoscalerOptions`: they are fields of a container of the head pod."""
    before, after = _autoscalers_pod(old), _autoscalers_pod(new)
    for each in review_pod(before, after, cluster.context, namespace=cluster.namespace):
        yield replace(each, what=f"autoscaler: {each.what}", action=cluster.rollout if old else "")


def _autoscalers_pod(spec: Any) -> Any:
    """Return the head's template with the autoscaler as its only container; None without options."""
    options, template = at(spec, "autoscalerOptions"), at(spec, "headGroupSpec", "template")
    if not isinstance(options, Mapping) or not isinstance(template, Mapping):
        return None
    fields = {key: options[key] for key in _AUTOSCALERS_CONTAINER if key in options}
    containers = [{"name": "autoscaler", **fields}]
    return {**template, "spec": {**(template.get("spec") or {}), "initContainers": [], "containers": containers}}


def groups(spec: Any) -> dict[str, Mapping[str, Any]]:
    """Map the names of a RayCluster's worker groups to the groups."""
    return {str(group.get("groupName", "")): group for group in at(spec, "workerGroupSpecs") or []}


def _worker_groups(old: Any, new: Any, cluster: _Cluster) -> Iterator[ReviewFinding]:
    before, after = groups(old), groups(new)
    if len(after) != len(at(new, "workerGroupSpecs") or []):
        yield unknown("worker groups with equal names", "Only one of them is reviewed.")
    autoscaled = bool(old.get("enableInTreeAutoscaling") or new.get("enableInTreeAutoscaling"))
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            why = "KubeRay leaves the pods of a removed group running; they keep their nodes until a rollout."
            yield ReviewFinding(f"worker group {name} removed", Effect.NEEDS_ROLLOUT, why, cluster.rollout)
            continue
        if name not in before and old:
            what = f"worker group {name} added: {after[name].get('replicas', 0)} replicas"
            yield ReviewFinding(what, Effect.IN_PLACE, "KubeRay creates its pods.")
        yield from _group(f"worker group {name}", before.get(name), after[name], cluster)
        if name in before:
            yield from _numbers(name, before[name], after[name], autoscaled=autoscaled)


def _numbers(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], *, autoscaled: bool
) -> Iterator[ReviewFinding]:
    changed = [Delta((key,), before.get(key), after.get(key)) for key in _NUMBERS if before.get(key) != after.get(key)]
    wanted = [_wanted(group) for group in (before, after)]
    most = [group.get("maxReplicas", _NO_MAXIMUM) for group in (before, after)]
    if None in wanted or wanted[1] < wanted[0] or (autoscaled and most[1] < most[0]):
        action = operator_before(_before_fewer(before))
        lost = None if autoscaled or None in wanted else wanted[0] - wanted[1]
        what, reason = f"{name}: {summary(changed)}", _fewer(wanted[0], lost)
        yield ReviewFinding(what, Effect.ENDS_JOBS, reason, action, lost=lost)
    elif changed:
        yield ReviewFinding(f"{name}: {summary(changed)}", Effect.IN_PLACE, "No running pod is deleted.")
    for key in ("numOfHosts", "scaleStrategy"):
        if differ := fields(before, after, key):
            yield ReviewFinding(f"{name}: {summary(differ)}", Effect.ENDS_JOBS, "KubeRay deletes pods of the group.")


def _fewer(wanted: Any, lost: int | None) -> str:
    """Return what fewer replicas do to the running pods."""
    number = "the surplus worker pods" if lost is None else f"{lost} of {wanted} worker pods"
    return (
        f"KubeRay deletes {number}, chosen at random. A job with a worker there loses it, and resumes from its last "
        "checkpoint if it saves any."
    )


def _before_fewer(group: Mapping[str, Any]) -> str:
    nodes = " or ".join(groups_of(at(group, "template", "spec") or {}))
    wait = "wait until no job runs on these workers"
    return f"{wait}, or drain nodes of {nodes} with `ops scale`, which lowers the replicas too" if nodes else wait


def _wanted(group: Mapping[str, Any]) -> Any:
    """Return the number of pods that KubeRay keeps without autoscaling; None if it is no number."""
    numbers = [group.get("replicas", 0), group.get("minReplicas", 0), group.get("maxReplicas", _NO_MAXIMUM)]
    if not all(isinstance(each, int) for each in numbers):
        return None
    replicas, least, most = numbers
    return max(least, min(replicas, most))


def _group(name: str, before: Any, after: Any, cluster: _Cluster) -> Iterator[ReviewFinding]:
    """Yield the consequences of a changed template or start parameters; `before` is None for a new group."""
    old, new = at(before, "template"), at(after, "template")
    for each in review_pod(old, new, cluster.context, namespace=cluster.namespace):
        yield replace(each, what=f"{name}: {each.what}", action=cluster.rollout if before else "")
    started = ["\n".join(map(str, (at(side, "rayStartParams") or {}).values())) for side in (before, after)]
    if lines := dangerous_lines(*started):
        yield endangers(Danger.RUNS_CODE, f"{name}: {summary(lines)}")
    if before is None:
        return
    templates = fields(before, after, "rayStartParams", "template")
    if changed := [each for each in templates if TEMPLATE_LABEL not in each.path]:
        images = [f"image tag {tag_of(old)} → {tag_of(new)}"] if tag_of(old) != tag_of(new) else []
        rest = [each for each in changed if not (images and each.path[-1] == "image")]
        what = f"{name}: {summary([*images, *in_words(rest)])}"
        ready = operator_after(f"run `ops wait --env {cluster.context.environment}` until the image exists")
        action = steps(ready if images else "", cluster.rollout)
        yield ReviewFinding(what, Effect.NEEDS_ROLLOUT, _NO_ROLL, action)
    known = _HEAD_FIELDS if name == "head" else _GROUP_FIELDS
    if strange := others(before, after, known):
        yield unknown(f"{name}: {summary(strange)}", "No rule knows these fields of a group.")


def tag_of(template: Any) -> str:
    """Return the tag or digest of the image of a template's first container, which is Ray's."""
    containers = at(template, "spec", "containers") or [{}]
    image = str(containers[0].get("image", ""))
    return image.rpartition("/")[2].partition("@" if "@" in image else ":")[2]


def _spec(before: Body, after: Body, rollout: str) -> Iterator[ReviewFinding]:
    old, new = before.get("spec") or {}, after.get("spec") or {}
    if not old.get("suspend") and new.get("suspend"):
        why = "KubeRay deletes all pods of a suspended RayCluster."
        yield ReviewFinding("suspend none → true", Effect.ENDS_JOBS, why)
    elif old.get("suspend") != new.get("suspend"):
        yield ReviewFinding("suspend", Effect.IN_PLACE, "KubeRay creates the pods of a resumed RayCluster.")
    if autoscaling := fields(old, new, "enableInTreeAutoscaling", "autoscalerOptions"):
        why = "The autoscaler is a container of the head pod."
        yield ReviewFinding(summary(autoscaling), Effect.NEEDS_ROLLOUT, why, rollout)
    if old.get("rayVersion") != new.get("rayVersion"):
        what = f"rayVersion {old.get('rayVersion')} → {new.get('rayVersion')}"
        yield ReviewFinding(what, Effect.NEEDS_ROLLOUT, _NO_ROLL, rollout)
    if strange := others(old, new, _SPEC_FIELDS):
        yield unknown(summary(strange), "No rule knows these fields of a RayCluster.")
    marks = [(at(side, "metadata", "annotations") or {}) for side in (before, after)]
    if any(marks[0].get(key) != marks[1].get(key) for key in _POD_ANNOTATIONS):
        yield ReviewFinding("annotations of KubeRay", Effect.NEEDS_ROLLOUT, _NO_ROLL, rollout)
    if before["apiVersion"] != after["apiVersion"]:
        yield unknown(f"apiVersion {before['apiVersion']} → {after['apiVersion']}", "The CRD decides what it keeps.")


def _exposure(before: Body | None, after: Body) -> Iterator[ReviewFinding]:
    """Yield how the head's service or ingress becomes reachable; KubeRay creates each once and leaves it then."""
    old, new = (at(side, "spec", "headGroupSpec") or {} for side in (before, after))
    why = "Ray's dashboard runs any code, without a password."
    for path in (("serviceType",), ("headService", "spec", "type")):
        if at(new, *path) != at(old, *path) and at(new, *path) not in (None, "ClusterIP"):
            yield endangers(Danger.PUBLIC_ENDPOINT, f"head: {'.'.join(path)} {at(new, *path)}", why)
    if new.get("enableIngress") and not old.get("enableIngress"):
        yield endangers(Danger.PUBLIC_ENDPOINT, "head: enableIngress", why)
    annotations = [
        {
            **(at(side, "spec", "headServiceAnnotations") or {}),
            **(at(side, "spec", "headGroupSpec", "headService", "metadata", "annotations") or {}),
        }
        for side in (before, after)
    ]
    if new_ones := list(deltas(annotations[0], annotations[1])):
        yield endangers(Danger.PUBLIC_ENDPOINT, f"head service: {summary(new_ones)}", "They configure load balancers.")
    rest = fields(old, new, "headService")
    if rest and before is not None:
        yield ReviewFinding(f"head: {summary(rest)}", Effect.NEEDS_ROLLOUT, "KubeRay creates the head's service once.")
