"""Write the names of services to a file that pods mount at /etc/hosts, instead of a cluster's DNS and kube-proxy.

A service's name resolves to the addresses of its ready pods, whatever the service's type: port and target port must be
equal.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.pods.sandbox.network import GATEWAY

AWS: Final = "aws.localhost"
"""The name of AWS's APIs for pods: one of the account's own hosts (`admission.middleware`)."""


class Hosts:
    """One file per namespace, because a service's short name is valid only in its own namespace."""

    def __init__(self, directory: Path, *, service_ip: str) -> None:
        self._directory = directory
        self._service_ip = service_ip
        self._lines: list[tuple[str, str, list[str]]] = []
        self._written: dict[str, str] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def of(self, namespace: str) -> Path:
        """Return the file for a namespace's pods."""
        path = self._directory / namespace
        if namespace not in self._written:
            self._write(namespace)
        return path

    def update(self, services: Iterable[Object], pods: Iterable[Object]) -> None:
        """Write the files that changed."""
        self._lines = sorted(_addresses(services, pods))
        for namespace in self._written:
            self._write(namespace)

    def _write(self, namespace: str) -> None:
        names = "kubernetes.default.svc.cluster.local kubernetes.default.svc kubernetes.default"
        lines = ["127.0.0.1 localhost", f"{self._service_ip} {names}", f"{GATEWAY} {AWS}"]
        for own, address, [full, *short] in self._lines:
            known = [full, full.removesuffix(".cluster.local"), *(short if own == namespace else ())]
            lines.append(f"{address} {' '.join(known)}")
        text = "\n".join(lines) + "\n"
        if self._written.get(namespace) != text:
            # In place: the pods' mounts would not show a file that replaced this one.
            (self._directory / namespace).write_text(text)
            self._written[namespace] = text


def _addresses(services: Iterable[Object], pods: Iterable[Object]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (namespace, address, [full name, short names]) of each pod with an address, and of each of its services."""
    found = [(pod, str(pod["status"]["podIP"])) for pod in pods if "podIP" in pod.get("status", {})]
    for pod, address in found:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        yield namespace, address, [f"{name}.{namespace}.pod.cluster.local", name]
    for service in services:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        for pod, address in found:
            if pod["metadata"]["namespace"] == namespace and _serves(pod, service["spec"]):
                yield namespace, address, [f"{name}.{namespace}.svc.cluster.local", name, f"{name}.{namespace}"]


def _serves(pod: Object, service: Object) -> bool:
    selector = service.get("selector")
    if not selector or not selector.items() <= pod["metadata"].get("labels", {}).items():
        return False
    if "deletionTimestamp" in pod["metadata"]:
        return False
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
    return ready or bool(service.get("publishNotReadyAddresses"))
