"""Create the existing EKS cluster that the caller describes, with the names that the caller gives.

Simulated: on AWS another team created the cluster. It contains everything that a deployment must leave unchanged:
managed add-ons, a node group, an owner's access entry, tags, and the owner's own objects in Kubernetes.
"""

import json
import time
from typing import Any, Final

from embedded_account.context import Account
from embedded_account.existing_description import Cluster, DescribedAddOn
from embedded_account.kubernetes.api import KubernetesClient, Object
from embedded_account.services.eks.service import ADMIN_POLICY, ClusterIds, service_of
from embedded_account.services.iam.access import backend_of
from embedded_account.tags import tag_list

_TAGS: Final = {"owner": "platform-team"}
_NODE_POLICIES: Final = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
_NAMESPACE: Final = "data-team"
_SETTLED_SECONDS: Final = 180


def make(account: Account, existing: Cluster) -> None:
    """Create the cluster, and wait until it is ACTIVE and its pods run."""
    service = service_of(account)
    owner = _make_role(account, f"{existing.name}-owner", {"AWS": account.account_id})
    request = {
        "name": existing.name,
        "version": existing.version,
        "roleArn": _make_role(
            account, f"{existing.name}-control-plane", {"Service": "eks.amazonaws.com"}, "AmazonEKSClusterPolicy"
        ),
        "resourcesVpcConfig": {
            "subnetIds": list(existing.control_plane_subnets),
            "endpointPublicAccess": False,
            "endpointPrivateAccess": True,
        },
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
        "bootstrapSelfManagedAddons": False,
        "tags": _TAGS,
    }
    service.create_cluster(request, None, ClusterIds(existing.issuer_id, existing.security_group))
    cluster = service.wait_until_active(existing.name)
    service.entries.create(cluster.name, {"principalArn": owner, "tags": _TAGS})
    service.entries.associate(cluster.name, owner, ADMIN_POLICY, {"type": "cluster"})
    backend_of(account).create_open_id_connect_provider(
        cluster.identity["oidc"]["issuer"], [], ["sts.amazonaws.com"], tag_list(_TAGS)
    )
    for add_on in existing.add_ons:
        service.addons.create(cluster.name, _add_on_request(add_on))
    service.node_groups.create(
        cluster.name,
        {
            "nodegroupName": "general",
            "nodeRole": _make_role(
                account, f"{existing.name}-nodes", {"Service": "ec2.amazonaws.com"}, *_NODE_POLICIES
            ),
            "subnets": list(existing.node_subnets),
            "instanceTypes": ["m5.large"],
            "tags": _TAGS,
        },
    )
    api = account.clusters.get(cluster.name).control_plane.api
    _make_objects(api)
    _settle(api)


def _add_on_request(add_on: DescribedAddOn) -> dict[str, Any]:
    stated = {"addonVersion": add_on.version, "configurationValues": add_on.configuration}
    return {"addonName": add_on.name, "tags": _TAGS, **{key: value for key, value in stated.items() if value}}


def _make_role(account: Account, name: str, principal: dict[str, str], *policies: str) -> str:
    trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    iam = backend_of(account)
    role = iam.create_role(
        name,
        json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        "/",
        permissions_boundary=None,
        description="",
        tags=tag_list(_TAGS),
        max_session_duration="3600",
    )
    for policy in policies:
        iam.attach_role_policy(f"arn:aws:iam::aws:policy/{policy}", name)
    return str(role.arn)


def _settle(api: KubernetesClient) -> None:
    """Wait until every pod runs and is an endpoint of its service: a later comparison needs a stable state."""
    deadline = time.monotonic() + _SETTLED_SECONDS
    while waiting := _unsettled(api):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the existing cluster was not ready within {_SETTLED_SECONDS} s: {waiting}")
        time.sleep(0.2)


def _unsettled(api: KubernetesClient) -> list[str]:
    """Return the pods that do not run, and the services that lack an endpoint for one of their pods."""
    pods = api.get("/api/v1/pods")["items"]
    services = api.get("/api/v1/services")["items"]
    slices = api.get("/apis/discovery.k8s.io/v1/endpointslices")["items"]
    behind = [
        service["metadata"]["name"]
        for service in services
        if (selector := service["spec"].get("selector"))
        and _ready(slices, service) != sum(selector.items() <= pod["metadata"]["labels"].items() for pod in pods)
    ]
    waiting = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] != "Running"]
    return [*waiting, *behind] if pods else ["no pod"]


def _ready(slices: list[Object], service: Object) -> int:
    """Return the number of ready endpoints of a service."""
    name = service["metadata"]["name"]
    own = [each for each in slices if each["metadata"].get("labels", {}).get("kubernetes.io/service-name") == name]
    endpoints = [endpoint for each in own for endpoint in each.get("endpoints") or []]
    return sum(bool(endpoint["conditions"].get("ready")) for endpoint in endpoints)


def _make_objects(api: KubernetesClient) -> None:
    """Create objects of the cluster's other users: one of each kind that a Helm release could overwrite."""
    api.create("/api/v1/namespaces", _object("v1", "Namespace", _NAMESPACE))
    api.create(
        f"/api/v1/namespaces/{_NAMESPACE}/configmaps", _object("v1", "ConfigMap", "pipelines", data={"nightly": "on"})
    )
    rbac = "rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["data.example.com"], "resources": ["pipelines"], "verbs": ["get", "list"]}]
    api.create(f"/apis/{rbac}/clusterroles", _object(rbac, "ClusterRole", "pipeline-reader", rules=rules))
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _pipelines())
    hooks = "admissionregistration.k8s.io/v1"
    api.create(f"/apis/{hooks}/validatingwebhookconfigurations", _pipeline_webhook(hooks))


def _pipelines() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "pipelines.data.example.com",
        spec={
            "group": "data.example.com",
            "names": {"kind": "Pipeline", "plural": "pipelines"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    )


def _pipeline_webhook(api_version: str) -> dict[str, Any]:
    rule = {
        "apiGroups": ["data.example.com"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pipelines"],
    }
    webhook = {
        "name": "pipelines.data.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": _NAMESPACE, "name": "pipelines"}},
        "failurePolicy": "Ignore",
        "rules": [rule],
        "sideEffects": "None",
    }
    return _object(api_version, "ValidatingWebhookConfiguration", "pipelines", webhooks=[webhook])


def _object(api_version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": _TAGS}, **content}
