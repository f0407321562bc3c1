"""Review the removal of an object of each kind."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from k8s_charts.shared.flows import SLEEPER_PODS
from k8s_charts.shared.names import SLEEPER
from ops.review.consequences import ReviewFinding, endangers
from ops.review.kubernetes.deltas import at
from ops.review.kubernetes.objects import Body
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.network_policies import no_longer_isolates
from ops.review.model import Danger, Effect
from ops.review.sleeping import ranges

_RAY: Final = frozenset({"RayCluster", "RayJob", "RayService"})
_GROUP_OF_RAY: Final = "ray.io"


def review_removal(body: Body, context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what the removal of an object does."""
    if body["kind"] == "NetworkPolicy":
        yield from no_longer_isolates(body, context, Effect.DELETED)
    same_for_all = _SAME_FOR_ALL.get(body["kind"])
    yield same_for_all or _BY_OBJECT.get(body["kind"], _workload)(body, context)


def _deleted(why: str) -> ReviewFinding:
    return ReviewFinding("removed", Effect.DELETED, why)


_ROLE: Final = _deleted("Who was bound to it loses what it allowed.")
_BINDING: Final = _deleted("Its subjects lose the role.")
_ADMISSION: Final = endangers(Danger.LOOSER_ISOLATION, "removed", "What it refused is admitted.", Effect.DELETED)
_SAME_FOR_ALL: Final[Mapping[str, ReviewFinding]] = {
    "CSIDriver": endangers(Danger.LOWER_PROTECTION, "removed", "New pods cannot mount its volumes.", Effect.DELETED),
    "ClusterRole": _ROLE,
    "ClusterRoleBinding": _BINDING,
    "ConfigMap": _deleted("New pods that mount it cannot start."),
    "Ingress": _deleted("Its hosts and paths are no longer served."),
    "Job": _deleted("If it still runs, its pods end."),
    "MutatingWebhookConfiguration": _ADMISSION,
    "NetworkPolicy": _deleted("What it allowed is denied, unless another policy allows it."),
    "PriorityClass": _deleted("Running pods keep their priority; new pods that name it are refused."),
    "RayCluster": endangers(
        Danger.JOBS_REMOVED, "removed", "KubeRay deletes all of its pods: its jobs end.", Effect.ENDS_JOBS
    ),
    "Role": _ROLE,
    "RoleBinding": _BINDING,
    "Secret": endangers(
        Danger.DATA_LOSS, "removed", "Its values are gone, and pods that need it cannot start.", Effect.DATA_LOST
    ),
    "Service": _deleted("Nothing reaches its pods by its name."),
    "ServiceAccount": _deleted("New pods that name it cannot start."),
    "StorageClass": _deleted("Existing volumes stay; new claims that name it stay pending."),
    "ValidatingAdmissionPolicy": _ADMISSION,
    "ValidatingAdmissionPolicyBinding": _ADMISSION,
    "ValidatingWebhookConfiguration": _ADMISSION,
}


def _namespace(body: Body, context: RuleContext) -> ReviewFinding:
    inside = [each for each in context.before.values() if each.namespace == body["metadata"]["name"]]
    ray = any(each.kind in _RAY for each in inside)
    claims = any(each.kind == "PersistentVolumeClaim" and not at(each.body, "spec", "volumeName") for each in inside)
    dangers = {Danger.JOBS_REMOVED} if ray else set()
    dangers |= {Danger.DATA_LOSS} if claims else set()
    effect = Effect.DATA_LOST if claims else Effect.ENDS_JOBS if ray else Effect.DELETED
    why = "Everything in it goes, also what no stack created."
    return ReviewFinding("removed", effect, why, dangers=frozenset(dangers))


def _limit(body: Body, context: RuleContext) -> ReviewFinding:
    if context.only_gone(_namespace_of(body), None):
        return _deleted("Its namespace is removed.")
    return endangers(Danger.LOOSER_ISOLATION, "removed", "The namespace may use more.", Effect.DELETED)


def _disruption_budget(body: Body, context: RuleContext) -> ReviewFinding:
    if context.only_gone(_namespace_of(body), at(body, "spec", "selector")):
        return _deleted("Its pods are removed.")
    if _is_of_the_sleeper(body) and not context.has("Deployment", _namespace_of(body), SLEEPER, after=True):
        # The Deployment's own removal says whether anything lacks it.
        return _deleted("Its pods are removed.")
    return endangers(Danger.LOOSER_ISOLATION, "removed", "All of its pods may be evicted at once.", Effect.DELETED)


def _volume(body: Body, _context: RuleContext) -> ReviewFinding:
    policy = at(body, "spec", "persistentVolumeReclaimPolicy") or "Retain"
    if policy == "Retain":
        return _deleted("Its policy is Retain: the file system stays. New pods cannot mount it.")
    why = f"Its policy is {policy}: the driver may delete the file system."
    return endangers(Danger.DATA_LOSS, "removed", why, Effect.DATA_LOST)


def _claim(body: Body, context: RuleContext) -> ReviewFinding:
    static = at(body, "spec", "volumeName")
    bound = [each for each in context.of_kind("PersistentVolume", after=False) if each.name == static]
    policies = {at(each.body, "spec", "persistentVolumeReclaimPolicy") or "Retain" for each in bound}
    if static and policies == {"Retain"}:
        return _deleted("Its volume's policy is Retain: the file system stays.")
    why = "The policy of its volume is not Retain."
    if not static:
        why = "The driver deletes the file system of a dynamic claim."
    return endangers(Danger.DATA_LOSS, "removed", why, Effect.DATA_LOST)


def _definition(body: Body, _context: RuleContext) -> ReviewFinding:
    jobs = {Danger.JOBS_REMOVED} if at(body, "spec", "group") == _GROUP_OF_RAY else set()
    why = f"Kubernetes deletes every {at(body, 'spec', 'names', 'kind')} of the cluster with it."
    return ReviewFinding("removed", Effect.DATA_LOST, why, dangers=frozenset({Danger.DATA_LOSS, *jobs}))


def _workload(body: Body, context: RuleContext) -> ReviewFinding:
    if context.only_gone(_namespace_of(body), None):
        return _deleted("Its namespace is removed.")
    if _is_of_the_sleeper(body) and context.head and ranges(context.head) == {}:
        return _deleted("No group sleeps any more.")
    why = f"Nothing does the {body['kind']}'s work any more."
    return endangers(Danger.LOWER_PROTECTION, "removed", why, Effect.DELETED)


def _is_of_the_sleeper(body: Body) -> bool:
    labels = at(body, "spec", "selector", "matchLabels")
    return bool(body["metadata"]["name"] == SLEEPER and labels == dict(SLEEPER_PODS))


def _namespace_of(body: Body) -> str:
    return str(body["metadata"].get("namespace", ""))


_BY_OBJECT: Final[Mapping[str, Callable[[Body, RuleContext], ReviewFinding]]] = {
    "CustomResourceDefinition": _definition,
    "LimitRange": _limit,
    "Namespace": _namespace,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    "PodDisruptionBudget": _disruption_budget,
    "ResourceQuota": _limit,
}
