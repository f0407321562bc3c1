"""Call the Kubernetes API with plain requests: JSON objects in and out, and watches.

The official Python client converts every object to classes and takes over a second to import. The rehearsal's kubelet
and nodes need only a few paths and plain JSON.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import urllib3
import yaml

Object = dict[str, Any]
"""A Kubernetes object or list, as JSON."""

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
# An API server that starts on a busy machine answers late. One that has ended refuses connections at once.
_PATIENCE_SECONDS: Final = 300


class KubernetesClientError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class KubernetesClient:
    """A connection to one API server with a client certificate. Thread-safe."""

    def __init__(self, server: str, *, ca: Path, certificate: Path, key: Path) -> None:
        self.server = server
        self._pool = urllib3.PoolManager(
            ca_certs=str(ca), cert_file=str(certificate), key_file=str(key), maxsize=16, retries=False
        )

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Return a connection as the only user of a kubeconfig that names its certificates by path."""
        config = yaml.safe_load(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        return cls(
            cluster["server"],
            ca=Path(cluster["certificate-authority"]),
            certificate=Path(user["client-certificate"]),
            key=Path(user["client-key"]),
        )

    def get(self, path: str, **query: str) -> Object:
        """Return an object or a list. Raises ApiError, with status 404 if there is none."""
        return self._request("GET", path, query=query)

    def create(self, path: str, body: Object) -> Object:
        """Create an object in a collection (or call a subresource). Raises ApiError, with status 409 if it exists."""
        return self._request("POST", path, body)

    def patch(self, path: str, body: Object, content_type: str = MERGE_PATCH) -> Object:
        """Patch an object; return it. Raises ApiError."""
        return self._request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, options: Object | None = None) -> Object:
        """Delete an object. Raises ApiError, with status 404 if there is none."""
        return self._request("DELETE", path, options or {})

    def text(self, path: str) -> str:
        """Return an answer that is not JSON, for example of `/readyz`. Raises ApiError."""
        return self._send("GET", path).data.decode()

    def watch(self, path: str, *, seconds: int, **query: str) -> Iterator[tuple[str, Object]]:
        """Yield (`ADDED`, `MODIFIED`, `DELETED`; object) until the server closes the watch after `seconds`.

        Raises ApiError, with status 410 if the given resourceVersion is too old.
        """
        parameters = query | {"watch": "true", "timeoutSeconds": str(seconds)}
        response = self._send("GET", path, query=parameters, stream=True)
        with response:
            rest = b""
            for chunk in response.stream(1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise KubernetesClientError(
                            event["object"].get("code", 500), event["object"].get("message", "")
                        )
                    yield event["type"], event["object"]

    def _request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        answer: Object = json.loads(self._send(method, path, body, query=query, content_type=content_type).data)
        return answer

    def _send(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        response = self._pool.request(
            method,
            f"{self.server}{path}",
            body=None if body is None else json.dumps(body).encode(),
            fields=query if body is None else None,
            headers={"Content-Type": content_type, "Accept": "application/json"},
            preload_content=not stream,
            timeout=urllib3.Timeout(connect=_PATIENCE_SECONDS, read=None if stream else _PATIENCE_SECONDS),
        )
        if response.status >= 400:
            raise KubernetesClientError(response.status, _message(response.data))
        return response


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace").strip()
