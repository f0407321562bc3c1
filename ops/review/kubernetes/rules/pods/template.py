"""Review what pods may do: privileges, labels and the texts that they run."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers, unknown
from ops.review.kubernetes.deltas import at, deltas, summary
from ops.review.kubernetes.objects import is_placeholder
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.pods.images import review_images
from ops.review.kubernetes.rules.pods.reach import containers, review_reach
from ops.review.model import Danger
from ops.review.scripts import dangerous_lines

_POD_FIELDS: Final = frozenset(
    {
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "imagePullSecrets",
        "initContainers",
        "nodeSelector",
        "preemptionPolicy",
        "priorityClassName",
        "restartPolicy",
        "schedulerName",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)
_CONTAINER_FIELDS: Final = frozenset(
    {
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resources",
        "restartPolicy",
        "securityContext",
        "startupProbe",
        "stdin",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "volumeMounts",
        "workingDir",
    }
)
_BESIDE: Final = ("env", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")


def review_pod(before: Any, after: Any, context: RuleContext, *, namespace: str) -> Iterator[ReviewFinding]:
    """Yield the dangers of a changed pod template (`metadata`, `spec`). Yield nothing for a harmless change."""
    old, new = at(before, "spec") or {}, at(after, "spec") or {}
    # Nothing restricted a pod that did not exist: its own restrictions are what it needs.
    added = [each for each in (privileges(new) if old else severe(new)) if each not in set(privileges(old))]
    if added:
        yield endangers(Danger.LOOSER_ISOLATION, f"may now: {summary(added)}")
    account = [at(spec, "serviceAccountName") or at(spec, "serviceAccount") for spec in (old, new)]
    if old and account[0] != account[1]:
        yield endangers(
            Danger.WIDER_PERMISSIONS, f"service account {account[0] or 'default'} → {account[1] or 'default'}"
        )
    if lines := dangerous_lines(texts(old), texts(new)):
        yield endangers(Danger.RUNS_CODE, f"runs: {summary(lines)}")
    yield from review_images(old, new, context)
    yield from review_reach(old, new, context, namespace)
    strange = [str(each) for each in deltas(_unknown_fields(old), _unknown_fields(new))]
    if strange:
        yield unknown(summary(strange), "No rule knows these fields of a pod.")
    yield from _labels(before, after, context, namespace)


def privileges(spec: Any) -> list[str]:
    """Return what a pod may do beyond Pod Security's `restricted` level, one phrase each."""
    return [
        *severe(spec),
        *_mild_of_pod(spec),
        *(each for container in containers(spec) for each in _mild(container, spec)),
    ]


def severe(spec: Any) -> list[str]:
    """Return those privileges with which a pod reaches its node or acts as root."""
    return [*_severe_of_pod(spec), *(each for container in containers(spec) for each in _severe(container, spec))]


def texts(spec: Any) -> str:
    """Return the texts that a pod's containers run, one per line."""
    return "\n".join(
        line
        for container in containers(spec)
        for line in (
            # Kubernetes appends the arguments to the command.
            " ".join(map(str, [*(container.get("command") or []), *(container.get("args") or [])])),
            *_lines([container.get(field) for field in _BESIDE]),
        )
    )


def _severe_of_pod(spec: Any) -> Iterator[str]:
    yield from (f"use the node's {key.removeprefix('host')} ({key})" for key in _HOST if _true(at(spec, key)))
    security = at(spec, "securityContext") or {}
    yield from (f"set the kernel parameter {each.get('name')}" for each in security.get("sysctls") or [])
    groups = [security.get("fsGroup"), security.get("runAsGroup"), *(security.get("supplementalGroups") or [])]
    yield from (f"use group {group}" for group in groups if group == 0)
    for volume in at(spec, "volumes") or []:
        if path := at(volume, "hostPath", "path"):
            yield f"mount {path} of the node (hostPath)"


def _mild_of_pod(spec: Any) -> Iterator[str]:
    if _true(at(spec, "shareProcessNamespace")):
        yield "see the processes of its other containers"
    if at(spec, "hostUsers") is not False:
        yield "use the node's user ids"
    if at(spec, "automountServiceAccountToken") is not False:
        yield "read its service account's token"


def _severe(container: Mapping[str, Any], spec: Any) -> Iterator[str]:
    name, both, own = container["name"], _security(container, spec), container.get("securityContext") or {}
    if _true(own.get("privileged")):
        yield f"do everything on the node ({name}: privileged)"
    if both.get("runAsUser") == 0 or is_placeholder(both.get("runAsUser")):
        yield f"run as root ({name})"
    for field in ("seccompProfile", "appArmorProfile"):
        if at(both, field, "type") == "Unconfined":
            yield f"run unconfined ({name}: {field})"
    if own.get("procMount") not in (None, "Default"):
        yield f"see all of /proc ({name})"
    if own.get("seLinuxOptions"):
        yield f"run with other SELinux options ({name})"
    yield from (f"use capability {each} ({name})" for each in at(own, "capabilities", "add") or [])
    ports = [port["hostPort"] for port in container.get("ports") or [] if port.get("hostPort")]
    yield from (f"open port {port} of the node ({name})" for port in ports)
    yield from (f"use the device {each.get('devicePath')} ({name})" for each in container.get("volumeDevices") or [])


def _mild(container: Mapping[str, Any], spec: Any) -> Iterator[str]:
    name, both, own = container["name"], _security(container, spec), container.get("securityContext") or {}
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"gain privileges ({name}: allowPrivilegeEscalation)"
    if own.get("readOnlyRootFilesystem") is not True:
        yield f"write its root file system ({name})"
    if both.get("runAsNonRoot") is not True:
        yield f"run as any user of its image ({name}: runAsNonRoot)"
    if at(both, "seccompProfile", "type") not in ("RuntimeDefault", "Localhost"):
        yield f"make all system calls ({name}: seccompProfile)"
    if "ALL" not in (at(own, "capabilities", "drop") or []):
        yield f"use its runtime's capabilities ({name})"


def _security(container: Mapping[str, Any], spec: Any) -> dict[str, Any]:
    """Return a container's security context with what it takes from its pod's."""
    return {**(at(spec, "securityContext") or {}), **(container.get("securityContext") or {})}


def _true(value: Any) -> bool:
    return value is True or is_placeholder(value)


def _unknown_fields(spec: Any) -> dict[str, Any]:
    found = {key: value for key, value in (spec or {}).items() if key not in _POD_FIELDS}
    for container in containers(spec):
        strange = {key: value for key, value in container.items() if key not in _CONTAINER_FIELDS}
        found |= {f"{container['name']}.{key}": value for key, value in strange.items()}
    return found


def _labels(before: Any, after: Any, context: RuleContext, namespace: str) -> Iterator[ReviewFinding]:
    """Yield pod labels with which another NetworkPolicy selects the pods."""
    if before is None:
        return
    old, new = (at(side, "metadata", "labels") or {} for side in (before, after))
    used = {key for policy in context.of_kind("NetworkPolicy", after=True) for key in selector_keys(policy.body)}
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key) and key in used]
    if changed:
        which = summary(f"{key} {old.get(key, 'none')} → {new.get(key, 'none')}" for key in changed)
        yield endangers(
            Danger.LOOSER_ISOLATION, f"labels {which}", f"NetworkPolicies select pods by them in {namespace}."
        )


def selector_keys(value: Any) -> Iterator[str]:
    """Yield the label keys of all selectors inside a value."""
    if isinstance(value, Mapping):
        yield from value.get("matchLabels") or {}
        yield from (str(each["key"]) for each in value.get("matchExpressions") or [])
        for each in value.values():
            yield from selector_keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from selector_keys(each)


def _lines(value: Any) -> Iterator[str]:
    """Yield all texts inside a value; a command's words make one line."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        yield " ".join(value)
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _lines(each)
