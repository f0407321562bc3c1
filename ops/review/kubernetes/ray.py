"""The RayClusters of both sides as rows of a table."""

from typing import Any, Final

from ops.review.assembly import Assembly, Pair
from ops.review.kubernetes.deltas import at
from ops.review.kubernetes.objects import KubernetesObject, applied, groups_of
from ops.review.kubernetes.rules.ray_clusters import groups, tag_of
from ops.review.model import ComparedRow

_NUMBERS: Final = {"replicas": "replicas", "min": "minReplicas", "max": "maxReplicas"}
_HEAD_NUMBERS: Final = {"replicas": "1", "min": "1", "max": "1"}
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def ray_clusters(pair: Pair) -> tuple[ComparedRow, ...]:
    """Return a row for each head and each worker group of both sides: `ray/rayml head`.

    Raises ReviewError if a manifest cannot be read.
    """
    before, after = _rows(pair.base), _rows(pair.head)
    return tuple(
        ComparedRow(name, before.get(name, {}), after.get(name, {})) for name in dict.fromkeys([*before, *after])
    )


def _rows(assembly: Assembly | None) -> dict[str, dict[str, str]]:
    return {name: row for each in applied(assembly, "RayCluster") for name, row in _rows_of(each).items()}


def _rows_of(cluster: KubernetesObject) -> dict[str, dict[str, str]]:
    spec, name = at(cluster.body, "spec"), f"{cluster.namespace}/{cluster.name}"
    rows = {f"{name} head": {**_HEAD_NUMBERS, **_pod(at(spec, "headGroupSpec", "template"))}}
    for group, content in groups(spec).items():
        numbers = {column: str(content.get(field, "")) for column, field in _NUMBERS.items()}
        rows[f"{name} {group}"] = {**numbers, **_pod(content.get("template"))}
    return rows


def _pod(template: Any) -> dict[str, str]:
    containers = at(template, "spec", "containers") or [{}]
    amounts = at(containers[0], "resources", "requests") or at(containers[0], "resources", "limits") or {}
    devices = [f"{amount} {name}" for name, amount in sorted(amounts.items()) if name not in _PLAIN]
    return {
        "runs on": ", ".join(groups_of(at(template, "spec") or {})),
        "cpu": str(amounts.get("cpu", "")),
        "memory": str(amounts.get("memory", "")),
        "accelerators": ", ".join(devices),
        "image": tag_of(template),
    }
