"""The pods of one RayCluster: the address of its head, and the pods that were lost."""

from controllers.kubernetes_api import Api, Object

_CLUSTER: str = "ray.io/cluster"
_KIND: str = "ray.io/node-type"


class RayClusterPods:
    """The pods at the last `look`. A pod that ran and is gone, failed or terminating counts as lost until `forget`."""

    def __init__(self, api: Api, namespace: str, cluster: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = f"{_CLUSTER}={cluster}"
        self._running: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self.head: str | None = None
        """IP address of the head; None if no head is running."""

    @property
    def lost(self) -> list[str]:
        """Return a phrase for each lost pod: its name and node."""
        return sorted(self._lost.values())

    def look(self) -> None:
        """Read the pods' current state. Raises ApiError."""
        pods = self._api.get(self._path, labelSelector=self._selector)["items"]
        running = {pod["metadata"]["uid"]: pod for pod in pods if _runs(pod)}
        self._lost |= {uid: name for uid, name in self._running.items() if uid not in running}
        self._running = {uid: _name(pod) for uid, pod in running.items()}
        heads = [pod for pod in running.values() if pod["metadata"]["labels"].get(_KIND) == "head"]
        self.head = heads[0]["status"].get("podIP") if heads else None

    def forget(self) -> None:
        """Forget the lost pods."""
        self._lost.clear()


def _runs(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _name(pod: Object) -> str:
    return f"pod {pod['metadata']['name']} of node {pod['spec'].get('nodeName', '')}"
