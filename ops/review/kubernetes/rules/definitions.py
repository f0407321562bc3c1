"""Review custom resource definitions and admission rules."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers, unknown
from ops.review.kubernetes.deltas import Delta, at, deltas, fields, summary
from ops.review.kubernetes.objects import Body
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.model import Danger, Effect

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
# Of these, each element is a condition; of other lists, each is a choice.
_ALL_OF: Final = frozenset({"required", "x-kubernetes-validations", "allOf"})
_CHECKS: Final = (
    *("required", "x-kubernetes-validations", "allOf", "enum", "oneOf", "anyOf", "not", "pattern", "format"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"),
)
_WEBHOOKS: Final = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})
# What the API server sets (API reference, ValidatingWebhook).
_WEBHOOK_DEFAULTS: Final[Mapping[str, Any]] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_UNCOUNTED: Final = ("additionalPrinterColumns", "description")


def review_definition(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a CustomResourceDefinition's change does to the objects of its kind."""
    if before is None:
        return
    old, new = _versions(before), _versions(after)
    for name in sorted(old.keys() - new.keys()):
        why = "The API server refuses it while objects are stored in that version; clients of it fail."
        yield ReviewFinding(
            f"version {name} removed", Effect.REFUSED, why, "ops kuberay crds", frozenset({Danger.DATA_LOSS})
        )
    for name in sorted(new):
        if old.get(name, {}).get("served") and not new[name].get("served"):
            yield endangers(Danger.LOWER_PROTECTION, f"version {name} is no longer served", "Its clients fail.")
        yield from _fields(name, old.get(name), new[name])
    yield from _stored(old, new)
    if fixed := fields(at(before, "spec"), at(after, "spec"), "group", "scope"):
        yield ReviewFinding(summary(fixed), Effect.REFUSED, "These fields of a definition are immutable.")
    if changed := fields(at(before, "spec"), at(after, "spec"), "conversion"):
        yield unknown(summary(changed), "A conversion rewrites all objects of the kind.")
    if changed := list(deltas(_served_names(before), _served_names(after), ("names",))):
        yield unknown(summary(changed), "Existing objects are served under other names, or not at all.")
    if at(before, "spec", "preserveUnknownFields") and not at(after, "spec", "preserveUnknownFields"):
        yield _loses("preserveUnknownFields true → false", "Objects lose the fields that the schema lacks.")


def review_admission(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield how webhooks and admission policies check less."""
    if before is None:
        if str(after["kind"]).startswith("Mutating"):
            yield unknown("created", "It rewrites objects of the cluster.")
        elif urls := [str(url) for each in after.get("webhooks") or [] if (url := at(each, "clientConfig", "url"))]:
            yield unknown(f"created: {summary(urls)}", "It sends objects of the cluster to an address outside.")
    elif changed := list(deltas(_checks(before), _checks(after))):
        strict = [each for each in changed if _as_strict(each, before, after)]
        if strict:
            yield ReviewFinding(summary(strict), Effect.IN_PLACE, "It refuses as much as before, or more.")
        if others := [each for each in changed if each not in strict]:
            yield endangers(Danger.LOOSER_ISOLATION, summary(others), "It may check less.")


def _as_strict(delta: Delta, *sides: Body) -> bool:
    """Return whether a change lets nothing pass.

    It may be another denial or record, more requests of which a validating webhook is asked, or the time of a webhook
    without whose answer all fails.
    """
    if delta.path[-1] == "validationActions" and isinstance(delta.after, list):
        return "Deny" in delta.after or set(delta.before or []) <= set(delta.after)
    if delta.path[-1] == "rules" and sides[0]["kind"] == "ValidatingWebhookConfiguration":
        return all(any(_covers(new, old) for new in delta.after or []) for old in delta.before or [])
    if delta.path[-1] != "timeoutSeconds":
        return False
    named = [each for side in sides for each in side.get("webhooks") or [] if each.get("name") == delta.path[1]]
    return bool(named) and all(each.get("failurePolicy", "Fail") == "Fail" for each in named)


def _covers(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether a webhook's rule names all requests of another (API reference, RuleWithOperations)."""
    scope = new.get("scope", "*")
    if scope not in ("*", old.get("scope", "*")):
        return False
    resources = {*new.get("resources", [])}
    # A * stands for all resources, and for no subresource such as pods/exec.
    named = [resources & {each, "*/*", *(() if "/" in each else "*")} for each in old.get("resources", [])]
    return all(named) and all(
        "*" in new.get(name, []) or {*old.get(name, [])} <= {*new.get(name, [])}
        for name in ("apiGroups", "apiVersions", "operations")
    )


def _checks(body: Body) -> dict[str, Any]:
    checks = {key: value for key, value in body.items() if key not in {"metadata", "apiVersion"}}
    if body["kind"] in _WEBHOOKS:
        checks["webhooks"] = [{**_WEBHOOK_DEFAULTS, **each} for each in body.get("webhooks") or []]
    return checks


def _versions(body: Body) -> dict[str, Any]:
    return {str(each.get("name")): each for each in at(body, "spec", "versions") or []}


def _fields(version: str, before: Any, after: Any) -> Iterator[ReviewFinding]:
    if before is None:
        yield ReviewFinding(f"version {version} added", Effect.IN_PLACE)
        return
    old, new = (dict(_schemas(at(side, "schema", "openAPIV3Schema"))) for side in (before, after))
    gone, added = _lost(old, new), sorted(new.keys() - old.keys())
    if gone:
        what = f"{version}: {len(gone)} fields removed: {summary(gone)}"
        yield _loses(what, "Objects lose their values in these fields.")
    if looser := [path for path in sorted(old.keys() & new.keys()) if _checks_less(old[path], new[path])]:
        what = f"{version}: fewer checks of {summary(path or 'the object' for path in looser)}"
        yield endangers(Danger.LOOSER_ISOLATION, what, "The API server accepts what it refused.")
    if added:
        yield ReviewFinding(f"{version}: {len(added)} fields added", Effect.IN_PLACE)
    if at(before, "subresources", "status") is not None and at(after, "subresources", "status") is None:
        what = f"{version}: subresource status removed"
        yield endangers(Danger.LOOSER_ISOLATION, what, "Whoever can update objects can then write their status too.")
    if not gone and not added and not looser and _counted(before) != _counted(after):
        yield ReviewFinding(f"{version}: schema", Effect.IN_PLACE)


def _loses(what: str, why: str) -> ReviewFinding:
    return ReviewFinding(what, Effect.DATA_LOST, why, "ops kuberay crds", frozenset({Danger.DATA_LOSS}))


def _stored(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ReviewFinding]:
    """Yield fields that the version in which objects are newly stored lacks."""
    old, new = (next((name for name, each in side.items() if each.get("storage")), "") for side in (before, after))
    if not old or not new or old == new:
        return
    was, now = (dict(_schemas(at(each, "schema", "openAPIV3Schema"))) for each in (before[old], after[new]))
    if gone := _lost(was, now):
        what = f"objects are stored in {new} instead of {old}, without {len(gone)} fields: {summary(gone)}"
        yield _loses(what, "Objects lose their values in these fields.")


def _lost(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the fields that the API server removes from objects, or whose type is another one."""
    gone = [path for path in old if path not in new and not _kept_open(path, new)]
    common = old.keys() & new.keys()
    pruned = [path for path in common if old[path].get(_OPEN) and not new[path].get(_OPEN)]
    typed = [path for path in common if old[path].get("type") not in (None, new[path].get("type"))]
    return sorted({*gone, *(f"{path or 'the object'}: all that the schema lacks" for path in pruned), *typed})


def _kept_open(path: str, schemas: Mapping[str, Any]) -> bool:
    """Return whether a level above keeps fields that the schema lacks."""
    parts = path.split(".")
    return any(schemas.get(".".join(parts[:depth]), {}).get(_OPEN) for depth in range(len(parts)))


def _checks_less(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a field's schema may accept a value that it refused."""
    for name in _CHECKS:
        old, new = before.get(name), after.get(name)
        if old is None or old == new:
            continue
        if isinstance(old, list) and isinstance(new, list):
            kept = [each in (new if name in _ALL_OF else old) for each in (old if name in _ALL_OF else new)]
            if all(kept):
                continue
        if name.startswith(("min", "max")) and new is not None and (new > old) is name.startswith("min"):
            continue
        return True
    return bool(after.get("nullable")) and not before.get("nullable")


def _counted(version: Any) -> dict[str, Any]:
    return {key: value for key, value in version.items() if key not in _UNCOUNTED}


def _served_names(body: Body) -> dict[str, Any]:
    names = at(body, "spec", "names") or {}
    return {key: value for key, value in names.items() if key in ("kind", "plural", "singular", "listKind")}


def _schemas(schema: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schema of each field by its path; items of lists and of mappings are `[]`."""
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for name, inside in (schema.get("properties") or {}).items():
        yield from _schemas(inside, f"{path}.{name}".lstrip("."))
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _schemas(schema[key], f"{path}[]")
