"""The CloudFormation models of a cluster's add-ons, access entries and pod identity associations."""

from typing import Any, Self

from embedded_account.context import Account
from embedded_account.services.eks.models import request_of
from embedded_account.services.eks.service import service_of
from embedded_account.services.shared.resource_model import Declaration, ResourceModel, cloudformation_model


@cloudformation_model("AWS::EKS::Addon")
class AddonResource(ResourceModel):
    """A managed add-on."""

    KNOWN = frozenset(
        {
            "AddonName",
            "AddonVersion",
            "ClusterName",
            "ConfigurationValues",
            "PreserveOnDelete",
            "ResolveConflicts",
            "ServiceAccountRoleArn",
            "Tags",
        }
    )
    MUTABLE = frozenset({"AddonVersion", "ConfigurationValues", "PreserveOnDelete", "ServiceAccountRoleArn", "Tags"})

    def __init__(self, account: Account, cluster_name: str, name: str) -> None:
        super().__init__(account, f"{cluster_name}|{name}")
        self._cluster_name, self._name = cluster_name, name
        self._preserve = False

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        request = request_of(declaration)
        service_of(declaration.account).addons.create(request["clusterName"], request)
        resource = cls(declaration.account, request["clusterName"], request["addonName"])
        resource._preserve = bool(request.get("preserveOnDelete", False))
        return resource

    def update(self, declaration: Declaration) -> None:
        self.refuse_removal(declaration, "AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn")
        request, addons = request_of(declaration), service_of(self.account).addons
        addons.update(self._cluster_name, self._name, request)
        addons.get(self._cluster_name, self._name)["tags"] = request["tags"]
        self._preserve = bool(request.get("preserveOnDelete", False))

    def remove(self) -> None:
        service_of(self.account).addons.delete(self._cluster_name, self._name, preserve=self._preserve)

    def attributes(self) -> dict[str, Any]:
        return {"Arn": service_of(self.account).addons.get(self._cluster_name, self._name)["addonArn"]}


@cloudformation_model("AWS::EKS::AccessEntry")
class AccessEntryResource(ResourceModel):
    """An access entry with its access policies."""

    MUTABLE = frozenset({"AccessPolicies", "KubernetesGroups", "Tags", "Username"})
    KNOWN = MUTABLE | {"ClusterName", "PrincipalArn", "Type"}

    def __init__(self, account: Account, cluster_name: str, principal_arn: str) -> None:
        super().__init__(account, f"{principal_arn}|{cluster_name}")
        self._cluster_name, self._principal_arn = cluster_name, principal_arn

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        request = request_of(declaration)
        service_of(declaration.account).entries.create(request["clusterName"], request)
        resource = cls(declaration.account, request["clusterName"], request["principalArn"])
        try:
            resource._associate(request)
        except Exception:
            resource.remove()
            raise
        return resource

    def update(self, declaration: Declaration) -> None:
        self.refuse_removal(declaration, "Username")
        request = request_of(declaration)
        entry = service_of(self.account).entries.update(self._cluster_name, self._principal_arn, request)
        entry.tags = request["tags"]
        self._associate(request)

    def remove(self) -> None:
        service_of(self.account).entries.delete(self._cluster_name, self._principal_arn)

    def attributes(self) -> dict[str, Any]:
        entry = service_of(self.account).entries.get(self._cluster_name, self._principal_arn)
        return {"AccessEntryArn": entry.arn}

    def _associate(self, request: dict[str, Any]) -> None:
        entries, where = service_of(self.account).entries, (self._cluster_name, self._principal_arn)
        wanted = {policy["policyArn"]: policy["accessScope"] for policy in request.get("accessPolicies", [])}
        for arn in set(entries.get(*where).policies) - set(wanted):
            entries.disassociate(*where, arn)
        for arn, scope in wanted.items():
            entries.associate(*where, arn, scope)


@cloudformation_model("AWS::EKS::PodIdentityAssociation")
class PodIdentityAssociationResource(ResourceModel):
    """An association of a service account with a role."""

    MUTABLE = frozenset({"RoleArn", "Tags"})
    KNOWN = MUTABLE | {"ClusterName", "Namespace", "ServiceAccount"}

    def __init__(self, account: Account, cluster_name: str, association: dict[str, Any]) -> None:
        super().__init__(account, association["associationArn"])
        self._cluster_name, self._id = cluster_name, association["associationId"]

    @classmethod
    def create(cls, declaration: Declaration) -> Self:
        request = request_of(declaration)
        association = service_of(declaration.account).pod_identities.create(request["clusterName"], request)
        return cls(declaration.account, request["clusterName"], association)

    def update(self, declaration: Declaration) -> None:
        request, associations = request_of(declaration), service_of(self.account).pod_identities
        associations.update(self._cluster_name, self._id, request)["tags"] = request["tags"]

    def remove(self) -> None:
        service_of(self.account).pod_identities.delete(self._cluster_name, self._id)

    def attributes(self) -> dict[str, Any]:
        return {"AssociationArn": self.physical_resource_id, "AssociationId": self._id}
