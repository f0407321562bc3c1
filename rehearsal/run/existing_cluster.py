"""Describe everything that the owner of an existing EKS cluster can see of it, for a comparison."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from config.model import ExistingEks
from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object
from embedded_account.running import EmbeddedAccount

_GROUPS_OF_EKS: Final = "rbac.authorization.k8s.io"
# Heartbeats and events come and go on their own; a component's status shows its health, not its existence.
_RESTLESS: Final = ("ComponentStatus", "Event", "Lease")
# The simulation of EKS's access policies: on AWS they leave no object in the cluster.
_ACCESS_POLICY: Final = "rehearsal/stand-in"
_VERSION_OF_WRITE: Final = ("managedFields", "resourceVersion")


def describe(account: EmbeddedAccount, existing: ExistingEks) -> dict[str, Any]:
    """Return what AWS's APIs and the cluster's own API return about the cluster, except what changes on its own."""
    api = KubernetesClient.from_kubeconfig(account.admin_kubeconfig(existing.name))
    return {
        "eks": _eks(account.client("eks"), existing.name),
        "oidc_provider": _oidc_provider(account.client("iam"), existing.oidc_provider_arn),
        "kubernetes": dict(_objects(api)),
    }


def collect_pods_of_gone_nodes(account: EmbeddedAccount, existing: ExistingEks) -> int:
    """Remove the pods of nodes that no longer exist; return how many there were.

    Kubernetes' pod garbage collector does the same, but looks every 20 s, and only after another 40 s.
    Source: https://github.com/kubernetes/kubernetes/blob/v1.35.4/pkg/controller/podgc/gc_controller.go
    """
    api = KubernetesClient.from_kubeconfig(account.admin_kubeconfig(existing.name))
    nodes = {node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]}
    pods = api.get("/api/v1/pods")["items"]
    stray = [pod["metadata"] for pod in pods if pod["spec"].get("nodeName", "") not in {"", *nodes}]
    for pod in stray:
        api.delete(f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}", {"gracePeriodSeconds": 0})
    return len(stray)


def ending_namespaces(account: EmbeddedAccount, existing: ExistingEks) -> list[str]:
    """Return the namespaces that are being deleted: nothing can be created in them until they are gone."""
    api = KubernetesClient.from_kubeconfig(account.admin_kubeconfig(existing.name))
    found = api.get("/api/v1/namespaces")["items"]
    return [each["metadata"]["name"] for each in found if each["metadata"].get("deletionTimestamp")]


def _eks(eks: Any, name: str) -> dict[str, Any]:
    entries = eks.list_access_entries(clusterName=name)["accessEntries"]
    return {
        "cluster": eks.describe_cluster(name=name)["cluster"],
        "access_entries": {
            arn: [
                eks.describe_access_entry(clusterName=name, principalArn=arn)["accessEntry"],
                eks.list_associated_access_policies(clusterName=name, principalArn=arn)["associatedAccessPolicies"],
            ]
            for arn in entries
        },
        "node_groups": {
            group: eks.describe_nodegroup(clusterName=name, nodegroupName=group)["nodegroup"]
            for group in eks.list_nodegroups(clusterName=name)["nodegroups"]
        },
        "add_ons": {
            add_on: eks.describe_addon(clusterName=name, addonName=add_on)["addon"]
            for add_on in eks.list_addons(clusterName=name)["addons"]
        },
        "pod_identities": eks.list_pod_identity_associations(clusterName=name)["associations"],
    }


def _oidc_provider(iam: Any, arn: str) -> dict[str, Any]:
    provider: dict[str, Any] = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    return {key: value for key, value in provider.items() if key != "ResponseMetadata"}


def _objects(api: KubernetesClient) -> Iterator[tuple[str, Any]]:
    """Yield every object of every kind that can be listed: its path, and the object without its status."""
    groups = [group["preferredVersion"]["groupVersion"] for group in api.get("/apis")["groups"]]
    for root in ("/api/v1", *(f"/apis/{group}" for group in groups)):
        for resource in api.get(root)["resources"]:
            if "/" in resource["name"] or "list" not in resource["verbs"] or resource["kind"] in _RESTLESS:
                continue
            for item in _items(api, f"{root}/{resource['name']}"):
                metadata = {key: value for key, value in item["metadata"].items() if key not in _VERSION_OF_WRITE}
                if _GROUPS_OF_EKS in root and _ACCESS_POLICY in metadata.get("labels", {}):
                    continue
                place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
                content = {key: value for key, value in item.items() if key not in ("metadata", "status")}
                yield f"{root}/{resource['name']}/{place}{metadata['name']}", {"metadata": metadata} | content


# The API server answers with this status while it prepares to serve a new kind.
@retry(
    retry=retry_if_exception(
        lambda error: isinstance(error, KubernetesClientError) and error.status == HTTPStatus.TOO_MANY_REQUESTS
    ),
    wait=wait_fixed(0.5),
    stop=stop_after_delay(20),
    reraise=True,
)
def _items(api: KubernetesClient, path: str) -> list[Object]:
    items: list[Object] = api.get(path)["items"]
    return items
