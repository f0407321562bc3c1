"""Review Deployments, DaemonSets, StatefulSets, Jobs, CronJobs and Pods."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ops.review.assembly import Assembly
from ops.review.consequences import ReviewFinding, endangers, refused
from ops.review.kubernetes import sleeper
from ops.review.kubernetes.deltas import at, fields, summary
from ops.review.kubernetes.objects import Body
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.monitoring import seconds
from ops.review.kubernetes.rules.namespaces import quantity
from ops.review.kubernetes.rules.pods.reach import containers, review_variables
from ops.review.kubernetes.rules.pods.template import review_pod
from ops.review.model import Danger, Effect
from ops.review.steps import author

CODE_ANNOTATION: Final = "ray-on-hyperpod/code"
"""A pod template's hash of the controller code in its ConfigMap (ADR 42)."""

_SELECTED: Final = frozenset({"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"})
_CONTROLLERS: Final = _SELECTED | {"CronJob"}
_OWN: Final = "controllers."
"""The package of the project's controllers."""
_PLACES: Final = ("affinity", "initContainers", "nodeSelector", "schedulerName")
_PROBES: Final = ("livenessProbe", "startupProbe")
_CHECKS: Final = frozenset({"exec", "failureThreshold", "grpc", "httpGet", "tcpSocket", "timeoutSeconds"})
_AMOUNT: Final = re.compile(r"(\d+)(\D+)")
_SLEEPS: Final = (
    "Nothing in use is taken: the group sleeps only while nothing uses it, and is awake in its hours. Whoever wakes it "
    "waits for its nodes."
)
_ROLLED: Final = "Kubernetes replaces the object's pods one after another."
_EFFECTS: Final = {
    "CronJob": "It holds from the next run on.",
    "Job": "",
}

_Containers = Mapping[str, Mapping[str, Any]]
"""A pod's containers by name."""


def review_workload(before: Body | None, after: Body, context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a workload's change does."""
    kind, namespace = str(after["kind"]), str(after["metadata"].get("namespace", ""))
    old, new = template_of(before), template_of(after)
    yield from review_pod(old, new, context, namespace=namespace)
    if before is None or before["metadata"]["name"] != after["metadata"]["name"]:
        return
    if kind in _SELECTED and at(before, "spec", "selector") != at(after, "spec", "selector"):
        yield refused("selector", f"The selector of a {kind} is immutable.", author("rename the object"))
    if kind == "Job" and _fixed_part(before) != _fixed_part(after):
        yield refused("pod template", "The template of a Job is immutable.", author("rename the Job"))
        return
    if kind in _CONTROLLERS:
        specs = at(old, "spec"), at(new, "spec")
        named = [{str(each["name"]): each for each in containers(side)} for side in specs]
        yield from review_variables(*specs)
        yield from _programs(*specs, *named, head=context.head)
        yield from _missing(*specs, context, namespace)
        yield from _retentions(*named)
    yield from _in_place(before, after, kind)


def _programs(
    old: Any, new: Any, before: _Containers, after: _Containers, *, head: Assembly | None
) -> Iterator[ReviewFinding]:
    """Yield the containers of the project's own controllers that start with other words, or are gone."""
    own = [name for name, each in before.items() if any(word.startswith(_OWN) for word in _words(each))]
    for name in own:
        words = [_words(side[name]) if name in side else ["none"] for side in (before, after)]
        if head and sleeper.only_groups_differ(words[0], words[1], head):
            differences = sleeper.differences(words[0], words[1])
            yield from (ReviewFinding(what, Effect.IN_PLACE, _SLEEPS) for what in differences)
        elif words[0] != words[1]:
            what = f"{name}: {' → '.join(' '.join(each) for each in words)}"
            yield endangers(Danger.LOWER_PROTECTION, what, "The controller may do something else, or nothing.")
    changed = [*map(str, fields(old, new, *_PLACES)), *_of_containers(before, after, own)]
    if own and changed:
        why = "The controller's pods may not be scheduled, or not start."
        yield endangers(Danger.LOWER_PROTECTION, summary(changed), why)


def _of_containers(before: _Containers, after: _Containers, names: Iterable[str]) -> Iterator[str]:
    """Yield the probes that differ and the limits that fall, of containers that stay."""
    for name in names:
        if name in after:
            probes = fields(before[name], after[name], *_PROBES)
            yield from (f"{name}: {each}" for each in probes if _CHECKS & {*each.path[1:], *_names(each.after)})
            limits = [at(side[name], "resources", "limits") or {} for side in (before, after)]
            fallen = [key for key in limits[1] if _is_less(limits[1][key], limits[0].get(key))]
            yield from (f"{name}: limit of {key} {limits[0].get(key, 'none')} → {limits[1][key]}" for key in fallen)


def _missing(old: Any, new: Any, context: RuleContext, namespace: str) -> Iterator[ReviewFinding]:
    """Yield ConfigMaps that a controller newly mounts and no manifest has: its pods would wait for them."""
    mounted = [[at(each, "configMap") for each in at(side, "volumes") or []] for side in (old, new)]
    names = [[at(each, "name") for each in side if at(each, "optional") is not True] for side in mounted]
    for name in names[1]:
        if name and name not in names[0] and not context.has("ConfigMap", namespace, str(name), after=True):
            why = "No manifest has it, and pods wait for what they mount."
            yield endangers(Danger.LOWER_PROTECTION, f"mounts ConfigMap {name}", why)


def _retentions(before: _Containers, after: _Containers) -> Iterator[ReviewFinding]:
    """Yield the containers that keep less, or for a shorter time, by their arguments."""
    for name in before.keys() & after.keys():
        was, now = _retention(before[name]), _retention(after[name])
        # Without any limit a program has its own.
        fallen = [each for each in now if _is_shorter(now[each], was.get(each))] if now else list(was)
        for each in fallen:
            what = f"{name}: {each} {was.get(each, 'none')} → {now.get(each, 'none')}"
            yield endangers(Danger.LOWER_PROTECTION, what, "It deletes earlier what it keeps.")


def _retention(container: Mapping[str, Any]) -> dict[str, str]:
    arguments = (word.partition("=") for word in _words(container))
    return {name: value for name, _, value in arguments if "retention" in name}


def _is_shorter(after: str, before: str | None) -> bool:
    """Return whether a limit of time or size falls, or cannot be compared; `before` is None if there was none."""
    if after == before:
        return False
    old, new = (_AMOUNT.fullmatch(each or "") for each in (before, after))
    if old and new and old[2] == new[2]:
        return int(new[1]) < int(old[1])
    return seconds(after) < seconds(before) or float("inf") in (seconds(after), seconds(before))


def _names(value: Any) -> Iterable[str]:
    return value if isinstance(value, Mapping) else ()


def _is_less(after: Any, before: Any) -> bool:
    """Return whether a limit falls, or is not a known amount; `before` is None if there was none."""
    old, new = (quantity(each) for each in (before, after))
    return before is None or (before != after and (old is None or new is None or new < old))


def _words(container: Mapping[str, Any]) -> list[str]:
    return [*map(str, container.get("command") or []), *map(str, container.get("args") or [])]


def template_of(body: Body | None) -> Any:
    """Return the pod template of a workload, without the hash of the controllers' code."""
    spec = at(body, "spec")
    if body is None:
        return None
    if body["kind"] == "Pod":
        return body
    template = at(spec, "jobTemplate", "spec", "template") if body["kind"] == "CronJob" else at(spec, "template")
    return without_code(template or {})


def without_code(template: Any) -> Any:
    """Return a pod template without the annotation that follows from the code's ConfigMap."""
    annotations = dict(at(template, "metadata", "annotations") or {})
    if annotations.pop(CODE_ANNOTATION, None) is None:
        return template
    return {**template, "metadata": {**template["metadata"], "annotations": annotations}}


def _in_place(before: Body, after: Body, kind: str) -> Iterator[ReviewFinding]:
    changed = fields(before, after, "spec")
    code = [each for each in changed if each.path[-1] == CODE_ANNOTATION or _only_code(each.before, each.after)]
    if code:
        yield ReviewFinding("hash of its code", Effect.NOTHING, "It follows from the changed ConfigMap of the code.")
    if rest := [each for each in changed if each not in code]:
        rolled = any("template" in each.path for each in rest)
        yield ReviewFinding(summary(rest), Effect.IN_PLACE, _EFFECTS.get(kind, _ROLLED if rolled else ""))
    replicas = [at(side, "spec", "replicas") for side in (before, after)]
    if kind in _SELECTED and replicas[1] == 0 and replicas[0] != 0:
        yield endangers(Danger.LOWER_PROTECTION, "no replicas", f"Nothing does the {kind}'s work any more.")
    if kind == "CronJob" and at(after, "spec", "suspend") and not at(before, "spec", "suspend"):
        yield endangers(Danger.LOWER_PROTECTION, "suspended", "Nothing does the CronJob's work any more.")
    elif kind == "CronJob" and at(after, "spec", "suspend") != at(before, "spec", "suspend"):
        yield ReviewFinding("suspend", Effect.IN_PLACE, "A CronJob that is not suspended starts Jobs.")


def _only_code(before: Any, after: Any) -> bool:
    keys = {*(before if isinstance(before, dict) else {}), *(after if isinstance(after, dict) else {})}
    return keys == {CODE_ANNOTATION}


def _fixed_part(job: Body) -> dict[str, Any]:
    changeable = {"parallelism", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished", "suspend"}
    return {key: value for key, value in (job.get("spec") or {}).items() if key not in changeable}


def review_driver(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield a CSIDriver's change."""
    if before is not None and (changed := fields(before, after, "spec")):
        yield ReviewFinding(summary(changed), Effect.IN_PLACE, "It holds for new mounts.")
