"""The CloudFormation models of EKS clusters and node groups; they call the service with requests in the API's shape."""

from typing import Any, Self

from embedded_account.context import Account
from embedded_account.services.eks.service import DEFAULT_UPGRADE_POLICY, NETWORK_DEFAULTS, service_of
from embedded_account.services.shared.resource_model import (
    Declaration,
    ResourceModel,
    cloudformation_model,
    serve,
)

_VERBATIM = frozenset({"Labels", "Tags"})
"""The properties whose keys the user chooses: their spelling is kept."""
_NUMBERS = frozenset({"MinSize", "MaxSize", "DesiredSize", "DiskSize", "MaxUnavailable"})
_BOOLEANS = frozenset(
    {
        "BootstrapClusterCreatorAdminPermissions",
        "BootstrapSelfManagedAddons",
        "DeletionProtection",
        "Enabled",
        "EndpointPrivateAccess",
        "EndpointPublicAccess",
        "PreserveOnDelete",
    }
)
"""Templates can write the values of `_NUMBERS` and `_BOOLEANS` as text."""


def install(account: Account) -> None:
    """Let the models act on the account."""
    serve(account)


def api_shape(value: Any) -> Any:
    """Return CloudFormation's properties in the API's spelling: SubnetIds becomes subnetIds, the size "2" becomes 2."""
    if isinstance(value, list):
        return [api_shape(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {name[0].lower() + name[1:]: _property(name, inner) for name, inner in value.items()}


def _property(name: str, value: Any) -> Any:
    if name in _VERBATIM:
        return value
    if name in _NUMBERS:
        return int(value)
    if name in _BOOLEANS:
        return str(value).lower() == "true"
    return api_shape(value)


def request_of(declaration: Declaration) -> dict[str, Any]:
    """Return the properties as an API request, with the tags as a map."""
    return {**api_shape(declaration.properties), "tags": declaration.tags()}


def _principal_of_stack(declaration: Declaration) -> str | None:
    """Return the role that CloudFormation uses for this stack, or None; EKS treats it as the cluster's creator."""
    stack = declaration.account.stacks.find(declaration.stack_id)
    return stack.role_arn if stack is not None else None


@cloudformation_model("AWS::EKS::Cluster", name_property="Name")
class ClusterResource(ResourceModel):
    """A cluster; its creation ends when its control plane runs.

    Starting and stopping a cluster does not block other resources.
    """

    runs_unlocked = True

    KNOWN = frozenset(
        {
            "AccessConfig",
            "BootstrapSelfManagedAddons",
            "ComputeConfig",
            "DeletionProtection",
            "EncryptionConfig",
            "KubernetesNetworkConfig",
            "Logging",
            "Name",
            "ResourcesVpcConfig",
            "RoleArn",
            "StorageConfig",
            "Tags",
            "UpgradePolicy",
            "Version",
        }
    )
    MUTABLE = frozenset({"DeletionProtection", "Logging", "ResourcesVpcConfig", "Tags", "UpgradePolicy", "Version"})

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        service = service_of(declaration.account)
        request = _cluster_request(declaration)
        service.create_cluster(request, _principal_of_stack(declaration))
        return cls(declaration.account, request["name"])

    def is_created(self) -> bool:
        service_of(self.account).wait_until_active(self.physical_resource_id)
        return True

    def update(self, declaration: Declaration) -> None:
        self.refuse_removal(declaration, "Version")
        service, name, request = service_of(self.account), self.physical_resource_id, _cluster_request(declaration)
        cluster = service.records.cluster(name)
        if (version := request.get("version", cluster.version)) != cluster.version:
            service.update_version(name, version)
            service.wait_until_active(name)
        declared = {
            "resourcesVpcConfig": {**NETWORK_DEFAULTS, **request["resourcesVpcConfig"]},
            "logging": request.get("logging", {"clusterLogging": []}),
            "deletionProtection": request.get("deletionProtection", False),
            "upgradePolicy": request.get("upgradePolicy", DEFAULT_UPGRADE_POLICY),
        }
        service.update_config(name, declared)
        cluster.tags = request["tags"]

    def remove(self) -> None:
        service_of(self.account).delete_cluster(self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        cluster = service_of(self.account).records.cluster(self.physical_resource_id)
        keys = [entry["provider"]["keyArn"] for entry in cluster.encryption_config]
        return {
            "Id": cluster.name,
            "Arn": cluster.arn,
            "Endpoint": cluster.endpoint,
            "CertificateAuthorityData": cluster.certificate_authority["data"],
            "ClusterSecurityGroupId": cluster.resources_vpc_config["clusterSecurityGroupId"],
            "EncryptionConfigKeyArn": keys[0] if keys else "",
            "OpenIdConnectIssuerUrl": cluster.identity["oidc"]["issuer"],
        }


def _cluster_request(declaration: Declaration) -> dict[str, Any]:
    request = {"name": declaration.name} | request_of(declaration)
    if "Logging" in declaration.properties:
        wanted = declaration.properties["Logging"].get("ClusterLogging", {}).get("EnabledTypes", [])
        types = [entry["Type"] for entry in wanted]
        request["logging"] = {"clusterLogging": [{"types": types, "enabled": True}] if types else []}
    return request


@cloudformation_model("AWS::EKS::Nodegroup", name_property="NodegroupName")
class NodegroupResource(ResourceModel):
    """A managed node group; its creation ends when its nodes have joined."""

    KNOWN = frozenset(
        {
            "AmiType",
            "CapacityType",
            "ClusterName",
            "DiskSize",
            "ForceUpdateEnabled",
            "InstanceTypes",
            "Labels",
            "LaunchTemplate",
            "NodeRole",
            "NodegroupName",
            "ReleaseVersion",
            "ScalingConfig",
            "Subnets",
            "Tags",
            "Taints",
            "UpdateConfig",
            "Version",
        }
    )
    MUTABLE = frozenset(
        {
            "Labels",
            "LaunchTemplate.Version",
            "ReleaseVersion",
            "ScalingConfig",
            "Tags",
            "Taints",
            "UpdateConfig",
            "Version",
        }
    )

    def __init__(self, account: Account, cluster_name: str, name: str) -> None:
        super().__init__(account, f"{cluster_name}/{name}")
        self._cluster_name, self._name = cluster_name, name

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        request = {"nodegroupName": declaration.name[-63:]} | request_of(declaration)
        service_of(declaration.account).node_groups.create(request["clusterName"], request)
        return cls(declaration.account, request["clusterName"], request["nodegroupName"])

    def update(self, declaration: Declaration) -> None:
        self.refuse_removal(declaration, "ReleaseVersion", "ScalingConfig", "UpdateConfig", "Version")
        groups, request = service_of(self.account).node_groups, request_of(declaration)
        group = groups.get(self._cluster_name, self._name)
        groups.update_version(self._cluster_name, self._name, request)
        groups.replace_labels_and_taints(group, request.get("labels", {}), request.get("taints", []))
        changes: dict[str, Any] = {key: request[key] for key in ("scalingConfig", "updateConfig") if key in request}
        groups.update_config(self._cluster_name, self._name, changes)
        group.tags = request["tags"]

    def remove(self) -> None:
        service_of(self.account).node_groups.delete(self._cluster_name, self._name)

    def attributes(self) -> dict[str, Any]:
        group = service_of(self.account).node_groups.get(self._cluster_name, self._name)
        return {
            "Arn": group.arn,
            "ClusterName": self._cluster_name,
            "Id": self.physical_resource_id,
            "NodegroupName": self._name,
        }
