"""Open a port-forward to a pod, whose end is not an error of its own."""

import threading
from functools import cache
from typing import Any, Final

import kubernetes
from kubernetes.stream import portforward

_THREAD: Final = "Kubernetes port forward proxy"


def open_port_forward(core: kubernetes.client.CoreV1Api, namespace: str, pod: str, port: int) -> Any:
    """Return the client library's port-forward; what uses its sockets sees every failure there."""
    _quieten()
    return portforward(core.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port))


@cache
def _quieten() -> None:
    """Let the library's own thread end silently when the connection ends under it: Python would print a traceback."""
    others = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        name = arguments.thread.name if arguments.thread else ""
        if not (name.startswith(_THREAD) and isinstance(arguments.exc_value, OSError)):
            others(arguments)

    threading.excepthook = hook
