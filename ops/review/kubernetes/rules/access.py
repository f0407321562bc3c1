"""Review Kubernetes roles, their bindings and service accounts."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers, refused
from ops.review.kubernetes.deltas import at, fields, summary
from ops.review.kubernetes.objects import Body
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.model import Danger, Effect
from ops.review.steps import author

ROLE_ANNOTATION: Final = "eks.amazonaws.com/role-arn"
_AGGREGATED: Final = "rbac.authorization.k8s.io/aggregate-to-"

Grant = tuple[str, str, str, str]
"""API group or `url`, resource or path, resource name (`*`: all), verb."""


def review_role(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a Role or ClusterRole newly allows."""
    if wider := new_grants(before, after):
        yield endangers(Danger.WIDER_PERMISSIONS, f"may now {summary(in_words(wider))}")
    old, new = (at(side, "aggregationRule") for side in (before, after))
    if old != new:
        yield endangers(Danger.WIDER_PERMISSIONS, "aggregationRule", "It takes the rules of all roles that it selects.")
    labels = [at(side, "metadata", "labels") or {} for side in (before, after)]
    if any(key.startswith(_AGGREGATED) and labels[0].get(key) != value for key, value in labels[1].items()):
        yield endangers(Danger.WIDER_PERMISSIONS, "aggregated into another role", "Who has that role gets these rules.")
    if before is None or wider:
        return
    if narrower := new_grants(after, before):
        yield ReviewFinding(f"may no longer {summary(in_words(narrower))}", Effect.IN_PLACE)
    elif before.get("rules") != after.get("rules"):
        yield ReviewFinding("its rules are written in another way", Effect.NOTHING, "They allow the same.")


def review_binding(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield who newly gets which role."""
    role = f"{at(after, 'roleRef', 'kind')} {at(after, 'roleRef', 'name')}"
    same_name = before is not None and before["metadata"]["name"] == after["metadata"]["name"]
    moved = before is not None and before.get("roleRef") != after.get("roleRef")
    if moved and same_name:
        was = f"{at(before, 'roleRef', 'kind')} {at(before, 'roleRef', 'name')}"
        yield refused(f"roleRef {was} → {role}", "The roleRef of a binding is immutable.", author("rename the binding"))
    subjects = new_subjects(before if not moved else None, after)
    if subjects:
        yield endangers(Danger.WIDER_PERMISSIONS, f"{', '.join(subjects)} may now act with {role}")
    if before is not None and (gone := new_subjects(after, before)):
        yield ReviewFinding(f"{', '.join(gone)} loses {role}", Effect.IN_PLACE)


def review_service_account(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield which AWS role a service account's pods newly get, and whether they get a token."""
    old, new = (at(side, "metadata", "annotations", ROLE_ANNOTATION) for side in (before, after))
    if old != new and new is not None:
        yield endangers(Danger.WIDER_PERMISSIONS, f"AWS role {old or 'none'} → {new}", "Its pods act with that role.")
    elif old != new:
        yield ReviewFinding(f"AWS role {old} → none", Effect.IN_PLACE, "Its new pods cannot call AWS.")
    # The rules of pods read the pods' own field, which wins.
    tokens = [at(side, "automountServiceAccountToken") is not False for side in (before, after)]
    if before is not None and tokens == [False, True]:
        why = "Its pods get a token of the API server."
        yield endangers(Danger.LOOSER_ISOLATION, "automountServiceAccountToken", why)
    if changed := fields(before, after, "secrets", "imagePullSecrets"):
        yield ReviewFinding(summary(changed), Effect.IN_PLACE, "It holds for new pods.")


def new_grants(before: Body | None, after: Body | None) -> list[Grant]:
    """Return what the second role allows beyond the first one, in the order of its rules."""
    old = list(grants(before))
    return [each for each in dict.fromkeys(grants(after)) if not any(_covers(wide, each) for wide in old)]


def new_subjects(before: Body | None, after: Body | None) -> list[str]:
    """Return the subjects that only the second binding has."""
    old = [_subject(each) for each in at(before, "subjects") or []]
    return [name for each in at(after, "subjects") or [] if (name := _subject(each)) not in old]


def grants(role: Body | None) -> Iterator[Grant]:
    """Yield each single thing that a role allows."""
    for rule in at(role, "rules") or []:
        verbs = rule.get("verbs") or []
        yield from (("url", path, "*", verb) for path, verb in product(rule.get("nonResourceURLs") or [], verbs))
        names = rule.get("resourceNames") or ["*"]
        yield from product(rule.get("apiGroups") or [], rule.get("resources") or [], names, verbs)


def in_words(allowed: list[Grant]) -> list[str]:
    """Return grants in words, the verbs of one resource together."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for group, resource, name, verb in allowed:
        verbs.setdefault((group, resource, name), []).append("do everything with" if verb == "*" else verb)
    return [f"{', '.join(each)} {_what(*what)}" for what, each in verbs.items()]


def _what(group: str, resource: str, name: str) -> str:
    named = f" {name}" if name != "*" else ""
    of_group = f".{group}" if group not in {"", "url", "*"} else ""
    return f"{'everything' if resource == '*' else resource}{of_group}{named}"


def _covers(wide: Grant, narrow: Grant) -> bool:
    if wide[0] == "url" and wide[1].endswith("*"):
        return narrow[0] == "url" and narrow[1].startswith(wide[1][:-1]) and wide[3] in {"*", narrow[3]}
    return all(mine in {"*", theirs} for mine, theirs in zip(wide, narrow, strict=True))


def _subject(subject: Mapping[str, Any]) -> str:
    namespace = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{subject.get('kind')} {namespace}{subject.get('name')}"
