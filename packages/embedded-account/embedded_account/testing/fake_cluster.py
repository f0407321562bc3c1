"""Fake a control plane without Kubernetes: keep objects by path and answer the requests of the EKS simulator."""

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedded_account.kubernetes.api import KubernetesClientError, Object

CA = b"-----BEGIN CERTIFICATE-----\nfake\n-----END CERTIFICATE-----\n"


class FakeApi:
    """The part of `embedded_account.kubernetes.api.Api` that EKS uses.

    `tokens` maps a token and its audience to a user name.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.version = "v1.35.0"
        self.tokens: dict[tuple[str, str], str] = {}
        self._events: queue.Queue[tuple[str, Object]] = queue.Queue()
        self._lock = threading.RLock()

    def get(self, path: str, **query: str) -> Object:
        if path == "/version":
            return {"gitVersion": self.version}
        with self._lock:
            if path in self.objects:
                return self.objects[path]
            kind = path.rsplit("/", 1)[-1]
            items = [item for where, item in self.objects.items() if where.split("/")[-2] == kind]
        selected = query.get("labelSelector")
        return {"items": [item for item in items if not selected or selected in item["metadata"].get("labels", {})]}

    def create(self, path: str, body: Object) -> Object:
        if path.endswith("/tokenreviews"):
            user = self.tokens.get((body["spec"]["token"], body["spec"]["audiences"][0]))
            return {"status": {"authenticated": True, "user": {"username": user}} if user else {}}
        where = f"{path}/{body['metadata']['name']}"
        with self._lock:
            if where in self.objects:
                raise KubernetesClientError(409, f"{where} exists")
            if "/namespaces/" in path:
                body["metadata"]["namespace"] = path.split("/namespaces/")[1].split("/", maxsplit=1)[0]
            self.objects[where] = body
        if body["kind"] == "Namespace":
            self._events.put(("ADDED", body))
        return body

    def patch(self, path: str, body: Object, _content_type: str) -> Object:
        self.objects[path.split("?", maxsplit=1)[0]] = body
        return body

    def delete(self, path: str, _options: Object | None = None) -> Object:
        with self._lock:
            if path not in self.objects:
                raise KubernetesClientError(404, f"{path} not found")
            return self.objects.pop(path)

    def watch(self, _path: str, **_query: Any) -> Iterator[tuple[str, Object]]:
        while True:
            yield self._events.get()

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of the objects of a kind, such as `daemonsets`."""
        return sorted(path.rsplit("/", 1)[-1] for path in self.objects if path.split("/")[-2] == kind)

    def make_namespace(self, name: str) -> None:
        """Create a namespace; watches receive its event."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.create("/api/v1/namespaces", body)


class FakePlane:
    """A control plane whose API is a FakeApi."""

    endpoint = "https://localhost:1"
    ca_pem = CA

    def __init__(self) -> None:
        self.api: Any = FakeApi()
        self.admin_kubeconfig = Path("/dev/null")
        self.running = False

    def start(self) -> None:
        self.running = True

    def upgrade(self, version: str) -> None:
        self.api.version = f"v{version}.0"

    def stop(self) -> None:
        self.running = False
