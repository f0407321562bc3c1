"""Review what pods reach: the account they act with, secrets, tokens, writable mounts and variables."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers
from ops.review.kubernetes.deltas import at, deltas, shown, summary
from ops.review.kubernetes.objects import KubernetesObject
from ops.review.kubernetes.rules.access import ROLE_ANNOTATION
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.model import Danger
from ops.review.scripts import ONLY_TELLS

# With these names a variable decides which code a program loads, or whose rights and which service it uses.
_LOADERS: Final = re.compile(
    r"PATH|\w+PATH|LD_\w+|PYTHON(?!UNBUFFERED|UTF8|HASHSEED)\w+|NODE_OPTIONS|JAVA_TOOL_OPTIONS|BASH_ENV|ENV"
    r"|AWS_ENDPOINT_URL\w*|AWS_\w*(ROLE|TOKEN|KEY|PROFILE|CREDENTIALS)\w*|KUBERNETES_\w+|KUBECONFIG|PIP_\w+"
    r"|(HTTPS?|ALL)_PROXY|(SSL|AWS_CA|REQUESTS_CA|CURL_CA)_\w+",
    re.IGNORECASE,
)
# Who enters Grafana, and as what, and which values let fewer in.
_ENTRY: Final = re.compile(r"GF_(AUTH|USERS|SECURITY)_\w+ ")
_CLOSES: Final = re.compile(
    r"GF_(SECURITY_ALLOW_EMBEDDING|AUTH_ANONYMOUS_ENABLED|USERS_ALLOW_\w+) \S+ → false"
    r"|GF_(\w+_DISABLE_\w+|SECURITY_COOKIE_SECURE|SECURITY_STRICT_TRANSPORT_SECURITY) \S+ → true"
)
_SORTS: Final = ("initContainers", "containers", "ephemeralContainers")


def review_reach(old: Any, new: Any, context: RuleContext, namespace: str) -> Iterator[ReviewFinding]:
    """Yield what a pod's specification newly reaches."""
    known = set(_secrets(old))
    if secrets := [each for each in _secrets(new) if each not in known and not _is_new(each, context, namespace)]:
        yield endangers(Danger.LOOSER_ISOLATION, f"may now read: {summary(secrets)}", "Its containers get the values.")
    if not old:
        yield from _account(new, context, namespace)
        return
    if tokens := [each for each in _tokens(new) if each not in list(_tokens(old))]:
        yield endangers(Danger.LOOSER_ISOLATION, f"may now: mount a service account's token for {summary(tokens)}")
    if written := sorted(_written(new) & (_mounted(old) - _written(old))):
        yield endangers(Danger.LOOSER_ISOLATION, f"may now write: {summary(map(shown, written))}", "It only read it.")
    if loaded := [each for each in variables(old, new) if _LOADERS.fullmatch(each.partition(" ")[0])]:
        yield endangers(Danger.RUNS_CODE, f"env {summary(loaded)}", "It decides which code or service a program uses.")


def review_variables(old: Any, new: Any) -> Iterator[ReviewFinding]:
    """Yield variables by which a controller may act on something else."""
    changed = [each for each in variables(old, new) if not ONLY_TELLS.fullmatch(each.partition(" ")[0])]
    entries = [each for each in changed if _ENTRY.match(each)]
    if looser := [each for each in entries if not _CLOSES.match(each)]:
        yield endangers(Danger.WIDER_PERMISSIONS, f"env {summary(looser)}", "Others may see or change what it shows.")
    if others := [each for each in changed if each not in entries and not _LOADERS.fullmatch(each.partition(" ")[0])]:
        yield endangers(Danger.RUNS_CODE, f"env {summary(others)}", "The controller may act on something else.")


def variables(old: Any, new: Any) -> list[str]:
    """Return the variables that differ, each as `NAME before → after`; `envFrom` is one of them."""
    before, after = ({str(each["name"]): each for each in containers(side)} for side in (old, new))
    found: list[str] = []
    for name, container in after.items():
        was = before.get(name, {})
        for field in ("env", "envFrom"):
            for each in deltas(_by_name(was.get(field)), _by_name(container.get(field))):
                place = each.path[0] if field == "env" and each.path else field
                found.append(f"{place} {shown(each.before)} → {shown(each.after)}")
    return found


def _by_name(entries: Any) -> Any:
    """Return variables by name, each without it; other values, or names that are not unique, as they are."""
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        return entries
    named = {str(each.get("name")): {key: value for key, value in each.items() if key != "name"} for each in entries}
    return named if len(named) == len(entries) else entries


def containers(spec: Any) -> list[Mapping[str, Any]]:
    """Return the containers of all sorts; the only container of its sort has the name of the sort."""
    found: list[Mapping[str, Any]] = []
    for sort in _SORTS:
        items = [item for item in at(spec, sort) or [] if isinstance(item, Mapping)]
        found += [{**item, "name": sort if len(items) == 1 else item.get("name", "")} for item in items]
    return found


def _account(spec: Any, context: RuleContext, namespace: str) -> Iterator[ReviewFinding]:
    """Yield the rights that a new pod takes over from an account that exists."""
    name = str(at(spec, "serviceAccountName") or at(spec, "serviceAccount") or "default")
    if _of_ray(name, namespace, context):
        return
    accounts = (each for each in context.of_kind("ServiceAccount", after=False) if each.namespace == namespace)
    account = next((each for each in accounts if each.name == name), None)
    role = at(account.body, "metadata", "annotations", ROLE_ANNOTATION) if account else None
    tokens = at(spec, "automountServiceAccountToken") is not False or bool(list(_tokens(spec)))
    bound = [each.resource for each in _bindings(namespace, name, context)] if tokens else []
    unknown = account is None and name != "default" and not context.has("ServiceAccount", namespace, name, after=True)
    if role or bound or (unknown and context.before):
        rights = ", ".join([*([f"AWS role {role}"] if role else []), *bound]) or "rights that no manifest shows"
        what = f"acts as service account {namespace}/{name}"
        yield endangers(Danger.WIDER_PERMISSIONS, what, f"The account exists, and has {shown(rights)}.")


def _of_ray(account: str, namespace: str, context: RuleContext) -> bool:
    """Return whether pods of RayClusters have the account: what they run is the jobs' matter."""
    return any(
        each.namespace == namespace and f'"serviceAccountName": "{account}"' in json.dumps(each.body)
        for each in context.of_kind("RayCluster", after=False)
    )


def _bindings(namespace: str, name: str, context: RuleContext) -> Iterator[KubernetesObject]:
    groups = {"system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for each in context.of_kind(kind, after=False):
            for subject in each.body.get("subjects") or []:
                own = subject.get("namespace", each.namespace) == namespace and subject.get("name") == name
                if (subject.get("kind") == "ServiceAccount" and own) or subject.get("name") in groups:
                    yield each
                    break


def _secrets(spec: Any) -> Iterator[str]:
    """Yield the Secrets whose values a pod's containers get."""
    for volume in at(spec, "volumes") or []:
        if name := at(volume, "secret", "secretName"):
            yield f"Secret {name}"
        for source in at(volume, "projected", "sources") or []:
            if name := at(source, "secret", "name"):
                yield f"Secret {name}"
        if at(volume, "csi", "driver"):
            yield f"volume of {volume['csi']['driver']} {json.dumps(volume['csi'], sort_keys=True)}"
    for container in containers(spec):
        for each in container.get("env") or []:
            if name := at(each, "valueFrom", "secretKeyRef", "name"):
                yield f"Secret {name}"
        for each in container.get("envFrom") or []:
            if name := at(each, "secretRef", "name"):
                yield f"Secret {name}"


def _is_new(secret: str, context: RuleContext, namespace: str) -> bool:
    kind, _, name = secret.partition(" ")
    sides = [context.has(kind, namespace, name, after=after) for after in (False, True)]
    return sides == [False, True]


def _tokens(spec: Any) -> Iterator[str]:
    """Yield the audience of each token that a pod mounts by itself."""
    for volume in at(spec, "volumes") or []:
        for source in at(volume, "projected", "sources") or []:
            if isinstance(source, Mapping) and "serviceAccountToken" in source:
                yield f"audience {at(source, 'serviceAccountToken', 'audience') or 'of the API server'}"


def _mounts(spec: Any) -> Iterator[tuple[str, bool]]:
    """Yield each mounted volume, as its source's text, and whether it is only read."""
    sources: dict[Any, Mapping[str, Any]] = {
        each.get("name"): each for each in at(spec, "volumes") or [] if isinstance(each, Mapping)
    }
    for container in containers(spec):
        for mount in container.get("volumeMounts") or []:
            source = {key: value for key, value in sources.get(mount.get("name"), {}).items() if key != "name"}
            claim = source.get("persistentVolumeClaim")
            reads = mount.get("readOnly") is True or at(claim, "readOnly") is True
            if claim:
                source = {"persistentVolumeClaim": at(claim, "claimName")}
            yield json.dumps(source, sort_keys=True), reads


def _mounted(spec: Any) -> set[str]:
    return {source for source, _ in _mounts(spec)}


def _written(spec: Any) -> set[str]:
    return {source for source, reads in _mounts(spec) if not reads}
