"""Changes of NetworkPolicies and Kubernetes permissions, in sentences."""

from collections.abc import Iterator

from ops.review.assembly import Pair
from ops.review.kubernetes.deltas import at
from ops.review.kubernetes.objects import KubernetesObject
from ops.review.kubernetes.rules.access import ROLE_ANNOTATION, in_words, new_grants, new_subjects
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.network_policies import lost_isolation, new_flows
from ops.review.kubernetes.sides import sides


def permissions(pair: Pair) -> Iterator[str]:
    """Yield a sentence on each change of NetworkPolicies, Kubernetes roles, bindings and accounts' AWS roles.

    Raises ReviewError if an object cannot be read.
    """
    both = sides(pair)
    if both.new:
        return
    context = RuleContext(pair.environment, both.before.all, both.after.all)
    there = RuleContext(pair.environment, both.after.all, both.before.all)
    yield from (f"NetworkPolicy {flow.namespace}/{flow.policy}: {flow}." for flow in new_flows(context))
    for flow in new_flows(there):
        yield f"NetworkPolicy {flow.namespace}/{flow.policy}: no longer allowed: {flow}."
    for before, after in both.pairs():
        one = after or before
        if one is None or (before and after and before.body == after.body):
            continue
        if one.kind == "NetworkPolicy":
            for direction, _ in lost_isolation(before.body if before else None, context):
                yield f"{one.resource} no longer restricts {direction.lower()}."
        elif one.kind in {"Role", "ClusterRole"}:
            yield from _role(before, after, one)
        elif one.kind in {"RoleBinding", "ClusterRoleBinding"}:
            yield from _binding(before, after, one)
        elif one.kind == "ServiceAccount":
            yield from _account(before, after, one)


def _role(before: KubernetesObject | None, after: KubernetesObject | None, one: KubernetesObject) -> Iterator[str]:
    old, new = (side.body if side else None for side in (before, after))
    yield from (f"{one.resource} may now {each}." for each in in_words(new_grants(old, new)))
    yield from (f"{one.resource} may no longer {each}." for each in in_words(new_grants(new, old)))


def _binding(before: KubernetesObject | None, after: KubernetesObject | None, one: KubernetesObject) -> Iterator[str]:
    old, new = (side.body if side else None for side in (before, after))
    moved = old is not None and new is not None and old.get("roleRef") != new.get("roleRef")
    gained = new_subjects(None if moved else old, new) if new else []
    lost = new_subjects(None if moved else new, old) if old else []
    for subject in gained:
        yield f"{subject} now has {at(new, 'roleRef', 'kind')} {at(new, 'roleRef', 'name')} by {one.resource}."
    for subject in lost:
        yield f"{subject} no longer has {at(old, 'roleRef', 'kind')} {at(old, 'roleRef', 'name')} by {one.resource}."


def _account(before: KubernetesObject | None, after: KubernetesObject | None, one: KubernetesObject) -> Iterator[str]:
    old, new = (at(side.body if side else None, "metadata", "annotations", ROLE_ANNOTATION) for side in (before, after))
    if old != new:
        yield f"{one.resource}: AWS role {old or 'none'} → {new or 'none'}."
