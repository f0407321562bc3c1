"""The pods of one RayCluster: where its head is, and which of them were lost."""

from controllers.kubernetes_api import Api, Object

_CLUSTER: str = "ray.io/cluster"
_KIND: str = "ray.io/node-type"


class RayClusterPods:
    """What `look` saw. A pod that ran and is gone, failed or about to end counts as lost until `forget`."""

    def __init__(self, api: Api, namespace: str, cluster: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = f"{_CLUSTER}={cluster}"
        self._running: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self.head: str | None = None
        """Address of the head; None without a running one."""

    @property
    def lost(self) -> list[str]:
        """The lost ones, in words."""
        return sorted(self._lost.values())

    def look(self) -> None:
        """See the pods as they are now. Raises ApiError."""
        pods = self._api.get(self._path, labelSelector=self._selector)["items"]
        running = {pod["metadata"]["uid"]: pod for pod in pods if _runs(pod)}
        self._lost |= {uid: name for uid, name in self._running.items() if uid not in running}
        self._running = {uid: _name(pod) for uid, pod in running.items()}
        heads = [pod for pod in running.values() if pod["metadata"]["labels"].get(_KIND) == "head"]
        self.head = heads[0]["status"].get("podIP") if heads else None

    def forget(self) -> None:
        """Count anew."""
        self._lost.clear()


def _runs(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _name(pod: Object) -> str:
    return f"pod {pod['metadata']['name']} of node {pod['spec'].get('nodeName', '')}"
