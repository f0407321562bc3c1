"""Review the values of Helm releases."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers, unknown
from ops.review.kubernetes.deltas import Delta, deltas, summary
from ops.review.kubernetes.objects import is_placeholder
from ops.review.kubernetes.rules.pods.images import foreign, registry, unpinned
from ops.review.model import Danger, Effect
from ops.review.scripts import dangerous_lines

# Words of a path after which a value can touch security, identity, exposure or data (ADR 46).
_HINT: Final = re.compile(
    r"security|privilege|role|rbac|account|policy|host|public|expose|ingress|external|delete|reclaim|retain|prune"
    r"|webhook|namespace|gate|capabilit|seccomp|apparmor|secret|token|credential|password|certificate|tls|auth"
    r"|admission|permission|insecure|anonymous|volume|crd|finalizer|uninstall|cleanup|proxy",
    re.IGNORECASE,
)
# Words of a path in which a hint is only part of another name.
_ORDINARY: Final = re.compile(
    r"(^|\.)(resources|replicas|replicaCount|nodeSelector|tolerations|affinity|topologySpreadConstraints|priorityClassName"
    r"|imagePullPolicy|pullPolicy|logging|logLevel|verbosity|labels|podLabels|livenessProbe|readinessProbe|startupProbe"
    r"|terminationGracePeriodSeconds)(\.|$)"
)
_IMAGE: Final = re.compile(r"(^|\.)\w*image$|(^|\.)\w*image\.(repository|registry|tag|digest|image)$", re.IGNORECASE)
_NODE: Final = frozenset({"privileged", "allowPrivilegeEscalation", "hostNetwork", "hostPID", "hostIPC"})
_MUST: Final = frozenset({"runAsNonRoot", "readOnlyRootFilesystem"})
_ACCOUNT: Final = re.compile(r"serviceAccount.*annotations|role-?arn|(^|\.)rbac(?!Enable)", re.IGNORECASE)
# What KubeRay's operator sees and may do, with the chart's defaults (its values.yaml).
_OPERATORS: Final = {"rbacEnable": True, "singleNamespaceInstall": False, "watchNamespace": []}


def review_values(
    before: Mapping[str, Any], after: Mapping[str, Any], accounts: frozenset[str] = frozenset()
) -> Iterator[ReviewFinding]:
    """Yield a consequence for each dangerous value, and one for all others. `accounts`: the environment's own."""
    changed = list(deltas(_parsed(before), _parsed(after)))
    ordinary: list[Delta] = []
    for each in changed:
        if found := _finding(each, accounts):
            yield found
        else:
            ordinary.append(each)
    if ordinary:
        yield ReviewFinding(summary(ordinary), Effect.IN_PLACE, "Helm upgrades the release.")


def _finding(each: Delta, accounts: frozenset[str]) -> ReviewFinding | None:
    path = ".".join(each.path)
    for rule in (_security, _access, _exposure, partial(_images, accounts=accounts), _switches, _texts):
        found, known = rule(each, path)
        if known:
            return found
    if _ORDINARY.search(path):
        return None
    if _HINT.search(path) or _HINT.search(_keys(each.before)) or _HINT.search(_keys(each.after)):
        return unknown(
            str(each), "No rule knows this value, and its name suggests security, identity, exposure or data."
        )
    return None


Answer = tuple[ReviewFinding | None, bool]
"""A consequence, and whether the rule knows the value."""


def _security(each: Delta, path: str) -> Answer:
    key = each.path[-1] if each.path else ""
    if key in _NODE:
        looser = (
            each.after is True
            or is_placeholder(each.after)
            or (key == "allowPrivilegeEscalation" and each.after is None)
        )
    elif key in _MUST:
        looser = each.after is not True
    elif key == "runAsUser":
        looser = each.after in (0, None) or is_placeholder(each.after)
    elif "seccompProfile" in each.path:
        looser = each.after not in ("RuntimeDefault", "Localhost")
    elif "securityContext" in path or "SecurityContext" in path or "capabilities" in each.path:
        looser = True
    else:
        return None, False
    return (endangers(Danger.LOOSER_ISOLATION, str(each)) if looser else None), True


def _access(each: Delta, path: str) -> Answer:
    if path in _OPERATORS:
        before, after = (_OPERATORS[path] if value is None else value for value in (each.before, each.after))
        if before == after:
            return None, True
        if after == _OPERATORS[path]:
            return endangers(Danger.WIDER_PERMISSIONS, str(each), "The operator may act in all namespaces."), True
        why = "The operator may no longer see or change RayClusters."
        return endangers(Danger.LOWER_PROTECTION, str(each), why), True
    if not _ACCOUNT.search(path):
        return None, False
    return endangers(Danger.WIDER_PERMISSIONS, str(each), "The release's pods may get other permissions."), True


def _exposure(each: Delta, path: str) -> Answer:
    key = each.path[-1] if each.path else ""
    if each.after in ("LoadBalancer", "NodePort"):
        return endangers(Danger.PUBLIC_ENDPOINT, str(each)), True
    if key == "enabled" and "ingress" in path.lower():
        return (endangers(Danger.PUBLIC_ENDPOINT, str(each)) if each.after is not False else None), True
    if key.endswith("reclaimPolicy") or key == "reclaim_policy":
        return (endangers(Danger.LOWER_PROTECTION, str(each)) if each.after != "Retain" else None), True
    return None, False


def _images(each: Delta, path: str, accounts: frozenset[str]) -> Answer:
    if not _IMAGE.search(path) or isinstance(each.after, Mapping):
        return None, False
    before, after = (str(value or "") for value in (each.before, each.after))
    key = each.path[-1]
    if key == "tag":
        return (
            endangers(Danger.LOWER_PROTECTION, str(each), "The tag is not fixed.")
            if unpinned(f"image:{after}")
            else None
        ), True
    if key == "digest":
        return (
            endangers(Danger.LOWER_PROTECTION, str(each), "The image is no longer fixed.") if not after else None
        ), True
    if before and foreign(after, {registry(before)}, accounts):
        return endangers(Danger.RUNS_CODE, str(each), "The image comes from another registry."), True
    if key.lower().endswith("image") and key != "repository" and unpinned(after) and not unpinned(before):
        return endangers(Danger.LOWER_PROTECTION, str(each), "The tag is not fixed."), True
    return None, True


def _switches(each: Delta, path: str) -> Answer:
    """Review `enabled`: a component that is switched off does its work no more."""
    switch = bool(each.path) and each.path[-1] == "enabled" and not _HINT.search(path)
    if switch and each.before is True and not each.after:
        return endangers(Danger.LOWER_PROTECTION, str(each), "Helm deletes the component's objects."), True
    return None, False


def _texts(each: Delta, path: str) -> Answer:
    before, after = (_text(value) for value in (each.before, each.after))
    if lines := dangerous_lines(before, after):
        return endangers(Danger.RUNS_CODE, f"{path} runs: {summary(lines)}"), True
    return None, False


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return " ".join(value)
    return "" if value is None else json.dumps(value)


def _keys(value: Any) -> str:
    """Return the names inside a value that is compared as a whole."""
    if isinstance(value, Mapping):
        return " ".join([*map(str, value), *map(_keys, value.values())])
    return " ".join(map(_keys, value)) if isinstance(value, list) else ""


def _parsed(value: Any) -> Any:
    """Return a value with the JSON documents in its texts as values."""
    if isinstance(value, Mapping):
        return {key: _parsed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_parsed(each) for each in value]
    if isinstance(value, str) and value.strip()[:1] in {"{", "["}:
        try:
            return _parsed(json.loads(value))
        except ValueError:
            return value
    return value
