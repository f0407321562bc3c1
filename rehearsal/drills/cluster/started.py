"""Check that what the project installs really starts: a wrong value or a missing right ends the drills here."""

import time
from typing import Final

from embedded_account.kubernetes.api import KubernetesClientError, Object
from embedded_account.kubernetes.control_plane import ControlPlane
from rehearsal.run.cluster import PATIENCE_SECONDS
from rehearsal.run.steps import RehearsalError

_EVERY_SECONDS: Final = 0.2
_LAST_WORDS: Final = 4
# By then a program that cannot start has logged the reason more than once.
_RESTARTS: Final = 2


def wait_started(plane: ControlPlane, namespace: str, deployment: str, *, timeout: float = PATIENCE_SECONDS) -> None:
    """Wait until all replicas of a Deployment are available.

    Raises RehearsalError with the last lines of a pod's log if one of its containers keeps restarting, or the
    Deployment is not available after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
    while not is_available(found := plane.api.get(path)):
        pods = _pods(plane, namespace, found)
        ended = [pod for pod in pods if _restarts(pod) >= _RESTARTS]
        if ended or time.monotonic() > deadline:
            how = "keeps restarting" if ended else f"is not available after {timeout:.0f} s"
            words = "\n".join(_last_words(plane, pod) for pod in (ended or pods)[:1])
            raise RehearsalError(f"{namespace}/{deployment} {how}; the end of its log:\n{words}")
        time.sleep(_EVERY_SECONDS)


def is_available(deployment: Object) -> bool:
    """Return whether all replicas of a Deployment are available, and made from its present template."""
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return bool(seen and status.get("updatedReplicas") == status.get("availableReplicas") == wanted)


def _pods(plane: ControlPlane, namespace: str, deployment: Object) -> list[Object]:
    """Return the Deployment's pods, the youngest first: after an upgrade the older ones still work."""
    labels = deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    try:
        pods: list[Object] = plane.api.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)["items"]
    except KubernetesClientError:
        return []
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)


def _restarts(pod: Object) -> int:
    statuses = pod["status"].get("containerStatuses") or []
    return max((int(status["restartCount"]) for status in statuses), default=0)


def _last_words(plane: ControlPlane, pod: Object) -> str:
    metadata = pod["metadata"]
    log = plane.logs / "pods" / f"{metadata['namespace']}_{metadata['name']}.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else ["(no log)"]
    return "\n".join(lines[-_LAST_WORDS:])
