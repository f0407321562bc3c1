"""Create nodes without machines: Node objects whose heartbeats, leases and pods kwok simulates."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from embedded_account.kubernetes.api import KubernetesClient, Object

KUBELET_LABEL: Final = "rehearsal/kubelet"
KUBELET_VALUE: Final = "kwok"
"""kwok keeps only the nodes with this label alive."""

_PATH: Final = "/api/v1/nodes"
_REQUESTS_AT_ONCE: Final = 16


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """A node as its kubelet would register it, with quantities in Kubernetes' form (`192`, `1900Gi`)."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str]
    capacity: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()
    """`{"key", "value", "effect"}` each."""
    provider_id: str | None = None

    def to_object(self, kubelet_version: str) -> Object:
        """Return the Node object."""
        own = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            KUBELET_LABEL: KUBELET_VALUE,
        }
        spec: Object = {"taints": [dict(taint) for taint in self.taints]}
        if self.provider_id:
            spec["providerID"] = self.provider_id
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": own | dict(self.labels),
                "annotations": dict(self.annotations),
            },
            "spec": spec,
            "status": {
                "allocatable": dict(self.allocatable),
                "capacity": dict(self.capacity),
                "nodeInfo": {"kubeletVersion": kubelet_version},
            },
        }


class Nodes:
    """The nodes of one control plane. Every method raises ApiError if the API server refuses the request."""

    def __init__(self, api: KubernetesClient) -> None:
        self._api = api

    def add(
        self,
        name: str,
        *,
        allocatable: Mapping[str, str],
        capacity: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        provider_id: str | None = None,
    ) -> None:
        """Register a node; it becomes Ready within about a second."""
        spec = NodeSpec(
            name=name,
            labels=labels or {},
            annotations=annotations or {},
            allocatable=allocatable,
            capacity=capacity,
            taints=taints,
            provider_id=provider_id,
        )
        self.add_all([spec])

    def add_all(self, specs: Iterable[NodeSpec]) -> None:
        """Register many nodes at once, with kubelets of the control plane's version."""
        version = f"{self._api.get('/version')['gitVersion']}-kwok"
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            list(pool.map(lambda spec: self._api.create(_PATH, spec.to_object(version)), specs))

    def remove(self, name: str) -> None:
        """Delete a node. Kubernetes deletes its orphaned pods up to a minute later."""
        self._api.delete(f"{_PATH}/{name}")

    def names(self) -> list[str]:
        """Return the names of all nodes, sorted."""
        return sorted(node["metadata"]["name"] for node in self._api.get(_PATH)["items"])

    def is_ready(self, name: str) -> bool:
        """Return whether the node's Ready condition is True (`Unknown` means lost)."""
        conditions = self._api.get(f"{_PATH}/{name}").get("status", {}).get("conditions", [])
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

    def stop_heartbeat(self, name: str) -> None:
        """Lose the node: its lease expires, its processes are out of reach, and its pods stay as they were."""
        self.set_label(name, KUBELET_LABEL, None)

    def resume_heartbeat(self, name: str) -> None:
        """Recover a lost node."""
        self.set_label(name, KUBELET_LABEL, KUBELET_VALUE)

    def set_label(self, name: str, key: str, value: str | None) -> None:
        """Set a label, or remove it if `value` is None."""
        self._api.patch(f"{_PATH}/{name}", {"metadata": {"labels": {key: value}}})
