"""Review namespaces and the limits of their pods: security levels, quotas, ranges, disruption budgets, priorities."""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers, refused, unknown
from ops.review.kubernetes.deltas import Delta, at, deltas, fields, summary
from ops.review.kubernetes.objects import Body
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.pods.template import selector_keys
from ops.review.model import Danger, Effect
from ops.review.steps import author

_LEVELS: Final = ("restricted", "baseline", "privileged")
_POD_SECURITY: Final = "pod-security.kubernetes.io/"
_UNITS: Final = {
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)},
}


def review_namespace(before: Body | None, after: Body, context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a namespace's change does to everything in it."""
    old, new = (at(side, "metadata", "labels") or {} for side in (before, after))
    for mode in ("enforce", "audit", "warn"):
        label = f"{_POD_SECURITY}{mode}"
        was, now = (str(labels.get(label, "privileged")) for labels in (old, new))
        # Only `enforce` refuses pods.
        looser = _rank(now) > _rank(was) if before else now == "privileged"
        if mode == "enforce" and looser:
            what = f"pod security {was if before else 'none'} → {now}"
            yield endangers(Danger.LOOSER_ISOLATION, what, "Its pods may do more.")
        elif was != now and before is not None:
            yield ReviewFinding(f"pod security ({mode}) {was} → {now}", Effect.IN_PLACE, "It holds for new pods.")
        version = f"{label}-version"
        if before is not None and old.get(version) != new.get(version):
            yield _version(mode, old.get(version), new.get(version))
    if before is not None:
        yield from _other_labels(old, new, context)


def review_quota(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield the limits of a ResourceQuota that are raised or removed."""
    if before is None:
        return
    for each in deltas(at(before, "spec", "hard"), at(after, "spec", "hard")):
        if each.before is None or _at_most(each.after, each.before):
            yield ReviewFinding(f"{each}", Effect.IN_PLACE, "Existing objects stay; new ones beyond it are refused.")
        else:
            yield endangers(Danger.LOOSER_ISOLATION, str(each), "The namespace may use more.")
    if scopes := fields(at(before, "spec"), at(after, "spec"), "scopes", "scopeSelector"):
        yield endangers(Danger.LOOSER_ISOLATION, summary(scopes), "The quota counts other objects.")


def review_limit_range(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield a LimitRange's changes; every change but a lower maximum may allow more."""
    if before is not None and (changed := list(deltas(_by_type(before), _by_type(after)))):
        if looser := [each for each in changed if not _stricter(each)]:
            yield endangers(Danger.LOOSER_ISOLATION, summary(looser), "Its pods may use more.")
        if rest := [each for each in changed if each not in looser]:
            yield ReviewFinding(summary(rest), Effect.IN_PLACE, "It holds for new pods.")


def review_disruption_budget(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield how many more pods may be evicted at once."""
    if before is None:
        return
    for each in fields(before, after, "spec"):
        field = each.path[-1]
        bounds = {"minAvailable": (each.before, each.after), "maxUnavailable": (each.after, each.before)}
        if field in bounds and each.after is not None and _at_most(*bounds[field]):
            yield ReviewFinding(str(each))
        else:
            yield endangers(Danger.LOWER_PROTECTION, str(each), "More pods may be evicted at once.")


def review_priority_class(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield a PriorityClass' change; its value is immutable."""
    if after.get("globalDefault") and not at(before, "globalDefault"):
        yield endangers(Danger.LOOSER_ISOLATION, "globalDefault true", "All new pods of the cluster get this priority.")
    if before is None or before["metadata"]["name"] != after["metadata"]["name"]:
        return
    for key in ("value", "preemptionPolicy"):
        if before.get(key) != after.get(key):
            what = str(Delta((key,), before.get(key), after.get(key)))
            yield refused(what, f"A PriorityClass' {key} is immutable.", author("rename it"))


def quantity(value: Any) -> Decimal | None:
    """Return a Kubernetes quantity as a number; None if it is none."""
    text = str(value)
    unit = next((unit for unit in sorted(_UNITS, key=len, reverse=True) if text.endswith(unit)), "")
    try:
        return Decimal(text.removesuffix(unit)) * _UNITS.get(unit, Decimal(1))
    except InvalidOperation:
        return None


def _rank(level: str) -> int:
    return _LEVELS.index(level) if level in _LEVELS else len(_LEVELS)


def _version(mode: str, before: Any, after: Any) -> ReviewFinding:
    what = f"pod security's {mode}-version {before or 'latest'} → {after or 'latest'}"
    old, new = (_minor(str(each or "latest")) for each in (before, after))
    if mode == "enforce" and new < old:
        return endangers(Danger.LOOSER_ISOLATION, what, "An earlier version knows fewer rules.")
    return ReviewFinding(what, Effect.IN_PLACE, "It holds for new pods.")


def _minor(version: str) -> int:
    digits = version.rpartition(".")[2]
    return int(digits) if digits.isdigit() else 1000 if version == "latest" else -1


def _other_labels(old: Any, new: Any, context: RuleContext) -> Iterator[ReviewFinding]:
    changed = [each for each in deltas(old, new) if not each.path[0].startswith(_POD_SECURITY)]
    used = {key for policy in context.of_kind("NetworkPolicy", after=True) for key in selector_keys(policy.body)}
    for each in changed:
        if each.path[0] in used:
            yield endangers(Danger.LOOSER_ISOLATION, f"label {each}", "NetworkPolicies select namespaces by it.")
        elif any(word in each.path[0] for word in ("policy", "security", "admission", "exclude", "ignore", "webhook")):
            yield unknown(f"label {each}", "Admission rules may select namespaces by it.")
        else:
            yield ReviewFinding(f"label {each}", Effect.IN_PLACE)


def _by_type(body: Body) -> dict[str, Any]:
    return {str(each.get("type")): each for each in at(body, "spec", "limits") or []}


def _stricter(each: Delta) -> bool:
    bound = each.path[1] if len(each.path) > 1 else ""
    return bound in {"max", "maxLimitRequestRatio"} and each.after is not None and _at_most(each.after, each.before)


def _at_most(low: Any, high: Any) -> bool:
    """Return whether a value is known to be at most another one; an absent bound, or all of them, is the highest."""
    if high in (None, "100%"):
        return True
    texts = [str(each) for each in (low, high)]
    if all(text.endswith("%") for text in texts):
        texts = [text.removesuffix("%") for text in texts]
    left, right = (quantity(text) for text in texts)
    return left is not None and right is not None and left <= right
