"""Recognise a rehearsal's simulated pods: a request into them is refused with a fixed sentence."""

import re
from typing import Final

import kubernetes
from kubernetes.client import ApiException

from ops.clients import REQUEST_TIMEOUT

_SENTENCE: Final = re.compile(
    r"(?:(?:container \S+ of )?pod \S+|the head's pod) is simulated: "
    r"no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"
)


def explanation(error: BaseException | str) -> str:
    """Return the rehearsal's sentence (podserver, simulated_heads) about a simulated pod; "" for any other error."""
    texts = (error.reason, error.body, str(error)) if isinstance(error, ApiException) else (str(error),)
    found = next((match for text in texts if text and (match := _SENTENCE.search(str(text)))), None)
    return found[0] if found else ""


def explanation_of_pod(core: kubernetes.client.CoreV1Api, namespace: str, pod: str) -> str:
    """Return the same sentence about a pod by requesting its log; "" if the pod runs or does not answer."""
    try:
        core.read_namespaced_pod_log(pod, namespace, limit_bytes=1, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        return explanation(error)
    return ""
