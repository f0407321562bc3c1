"""Keep pod identity associations and return them through the API.

Simulated: the pods of the rehearsal get no credentials from an association.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from embedded_account.context import Account
from embedded_account.services.eks.errors import in_use, invalid_parameter, not_found
from embedded_account.services.eks.records import ClusterRecords
from embedded_account.services.iam.access import trusts

Association = dict[str, Any]
"""A PodIdentityAssociation in the API's shape."""


class PodIdentityAssociations:
    """The pod identity associations of all clusters."""

    def __init__(self, account: Account, records: ClusterRecords) -> None:
        self._account = account
        self._records = records
        self._associations: dict[str, dict[str, Association]] = {}

    def forget(self, cluster_name: str) -> None:
        """Forget the associations of a cluster that is deleted."""
        self._associations.pop(cluster_name, None)

    def all(self, cluster_name: str) -> list[Association]:
        """Return all associations of a cluster."""
        self._records.cluster(cluster_name)
        return list(self._associations.get(cluster_name, {}).values())

    def get(self, cluster_name: str, association_id: str) -> Association:
        """Return one association; raise EKS's error if it does not exist."""
        self._records.cluster(cluster_name)
        found = self._associations.get(cluster_name, {}).get(association_id)
        if found is None:
            raise not_found(f"No association with ID {association_id} in cluster {cluster_name}")
        return found

    def create(self, cluster_name: str, request: Mapping[str, Any]) -> Association:
        """Carry out a CreatePodIdentityAssociation request."""
        self._records.active_cluster(cluster_name)
        self._require_trust(request["roleArn"])
        where = (request["namespace"], request["serviceAccount"])
        if where in {(other["namespace"], other["serviceAccount"]) for other in self.all(cluster_name)}:
            raise in_use(f"Association already exists for namespace {where[0]} and service account {where[1]}")
        identifier = f"a-{uuid.uuid4().hex[:17]}"
        now = self._account.clock.now()
        association = {
            "clusterName": cluster_name,
            "namespace": where[0],
            "serviceAccount": where[1],
            "roleArn": request["roleArn"],
            "associationArn": f"arn:aws:eks:{self._account.region}:{self._account.account_id}:"
            f"podidentityassociation/{cluster_name}/{identifier}",
            "associationId": identifier,
            "tags": dict(request.get("tags") or {}),
            "createdAt": now,
            "modifiedAt": now,
        }
        self._associations.setdefault(cluster_name, {})[identifier] = association
        return association

    def update(self, cluster_name: str, association_id: str, request: Mapping[str, Any]) -> Association:
        """Carry out an UpdatePodIdentityAssociation request: change the role."""
        association = self.get(cluster_name, association_id)
        self._require_trust(request["roleArn"])
        association["roleArn"] = request["roleArn"]
        association["modifiedAt"] = self._account.clock.now()
        return association

    def delete(self, cluster_name: str, association_id: str) -> Association:
        """Delete an association and return it."""
        association = self.get(cluster_name, association_id)
        del self._associations[cluster_name][association_id]
        return association

    def _require_trust(self, role_arn: str) -> None:
        if not trusts(self._account, role_arn, "pods.eks.amazonaws.com"):
            raise invalid_parameter(f"Trust policy of role {role_arn} does not allow pods.eks.amazonaws.com")
