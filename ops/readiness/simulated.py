"""Pods of a rehearsal in which nothing runs: its nodes refuse to reach into them, with a sentence."""

import re
from typing import Final

import kubernetes
from kubernetes.client import ApiException

from ops.clients import REQUEST_TIMEOUT

_SENTENCE: Final = re.compile(
    r"(?:container \S+ of )?pod \S+ is simulated: no program runs in it; `make rehearse-job` runs real Ray"
)


def said_of(error: BaseException | str) -> str:
    """Return what a rehearsal's node (podserver) says of a simulated pod; empty for anything else."""
    texts = (error.reason, error.body, str(error)) if isinstance(error, ApiException) else (str(error),)
    found = next((match for text in texts if text and (match := _SENTENCE.search(str(text)))), None)
    return found[0] if found else ""


def said_of_pod(core: kubernetes.client.CoreV1Api, namespace: str, pod: str) -> str:
    """Return the same of a pod, by asking for its log; empty for a pod that runs or cannot be asked."""
    try:
        core.read_namespaced_pod_log(pod, namespace, limit_bytes=1, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        return said_of(error)
    return ""
