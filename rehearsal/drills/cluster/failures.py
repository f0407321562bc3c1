"""Make a pod fail as a kubelet or an administrator does."""

from embedded_account.kubernetes.api import STRATEGIC_PATCH, KubernetesClient, Object


def evict(api: KubernetesClient, pod: Object) -> None:
    """Report a pod as Failed, as the kubelet of a node with a full disk does."""
    status = {"phase": "Failed", "reason": "Evicted", "message": "the node was low on resource: ephemeral-storage"}
    api.patch(f"{_path(pod)}/status", {"status": status}, STRATEGIC_PATCH)


def delete_at_once(api: KubernetesClient, pod: Object) -> None:
    """Delete a pod without a grace period, as an administrator."""
    api.delete(_path(pod), {"gracePeriodSeconds": 0})


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
