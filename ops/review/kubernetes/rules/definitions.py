"""Judge custom resource definitions and admission rules."""

from collections.abc import Iterator
from typing import Any, Final

from ops.review.kubernetes.consequences import Consequence, at, deltas, endangers, summary, unknown
from ops.review.kubernetes.objects import Body
from ops.review.kubernetes.rules.context import Context
from ops.review.model import Danger, Effect

_RAY: Final = "ray.io"
_UNCOUNTED: Final = ("additionalPrinterColumns", "description")


def judge_definition(before: Body | None, after: Body | None, _context: Context) -> Iterator[Consequence]:
    """Yield what a CustomResourceDefinition's change does to the objects of its kind."""
    kind = at(before or after, "spec", "names", "kind")
    if after is None:
        dangers = {Danger.DATA_LOSS} | ({Danger.JOBS_REMOVED} if at(before, "spec", "group") == _RAY else set())
        why = f"Kubernetes deletes every {kind} of the cluster with it."
        yield Consequence("removed", Effect.DATA_LOST, why, dangers=frozenset(dangers))
        return
    if before is None:
        return
    old, new = _versions(before), _versions(after)
    for name in sorted(old.keys() - new.keys()):
        why = "The API server refuses it while objects are stored in that version; clients of it fail."
        yield Consequence(
            f"version {name} removed", Effect.REFUSED, why, "ops kuberay crds", frozenset({Danger.DATA_LOSS})
        )
    for name in sorted(new):
        if old.get(name, {}).get("served") and not new[name].get("served"):
            yield endangers(Danger.LOWER_PROTECTION, f"version {name} is no longer served", "Its clients fail.")
        yield from _fields(name, old.get(name), new[name])
    fixed = [
        each for key in ("group", "scope") for each in deltas(at(before, "spec", key), at(after, "spec", key), (key,))
    ]
    if fixed:
        yield Consequence(summary(fixed), Effect.REFUSED, "These fields of a definition are immutable.")
    if changed := list(deltas(at(before, "spec", "conversion"), at(after, "spec", "conversion"), ("conversion",))):
        yield unknown(summary(changed), "A conversion rewrites all objects of the kind.")


def judge_admission(before: Body | None, after: Body | None, _context: Context) -> Iterator[Consequence]:
    """Yield how webhooks and admission policies check less."""
    kind = str((after or before or {})["kind"])
    if after is None:
        yield endangers(Danger.LOOSER_ISOLATION, "removed", "What it refused is admitted.", Effect.DELETED)
    elif before is None:
        if kind.startswith("Mutating"):
            yield unknown("created", "It rewrites objects of the cluster.")
        elif urls := [str(url) for each in after.get("webhooks") or [] if (url := at(each, "clientConfig", "url"))]:
            yield unknown(f"created: {summary(urls)}", "It sends objects of the cluster to an address outside.")
    elif changed := list(deltas(_judged(before), _judged(after))):
        yield endangers(Danger.LOOSER_ISOLATION, summary(changed), "It may check less.")


def _judged(body: Body) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in {"metadata", "apiVersion"}}


def _versions(body: Body) -> dict[str, Any]:
    return {str(each.get("name")): each for each in at(body, "spec", "versions") or []}


def _fields(version: str, before: Any, after: Any) -> Iterator[Consequence]:
    if before is None:
        yield Consequence(f"version {version} added", Effect.IN_PLACE)
        return
    old, new = (set(_paths(at(side, "schema", "openAPIV3Schema"))) for side in (before, after))
    gone, added = sorted(old - new), sorted(new - old)
    if gone:
        why = "Objects lose their values in these fields."
        yield Consequence(
            f"{version}: {len(gone)} fields removed: {summary(gone)}", Effect.IN_PLACE, why, "ops kuberay crds"
        )
    if added:
        yield Consequence(f"{version}: {len(added)} fields added", Effect.IN_PLACE)
    if not gone and not added and _counted(before) != _counted(after):
        yield Consequence(f"{version}: schema", Effect.IN_PLACE)


def _counted(version: Any) -> dict[str, Any]:
    return {key: value for key, value in version.items() if key not in _UNCOUNTED}


def _paths(schema: Any, path: str = "") -> Iterator[str]:
    for name, inside in (at(schema, "properties") or {}).items():
        yield f"{path}.{name}".lstrip(".")
        yield from _paths(inside, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(at(schema, key), dict):
            yield from _paths(at(schema, key), path)
