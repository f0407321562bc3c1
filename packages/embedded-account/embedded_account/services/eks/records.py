"""Look up moto's records of EKS clusters, for every part of the simulated EKS."""

from typing import Any

from moto.eks.models import eks_backends

from embedded_account.context import Account
from embedded_account.services.eks.errors import invalid_request, not_found
from embedded_account.services.eks.updates import Updates


class ClusterRecords:
    """The clusters of one account and region, and their updates."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.updates = Updates()

    @property
    def backend(self) -> Any:
        """Return moto's EKS backend of the account."""
        return eks_backends[self._account.account_id][self._account.region]

    def cluster(self, name: str) -> Any:
        """Return moto's Cluster; raise EKS's error if it does not exist."""
        if name not in self.backend.clusters:
            raise not_found(f"No cluster found for name: {name}.")
        return self.backend.clusters[name]

    def active_cluster(self, name: str) -> Any:
        """Return moto's Cluster; raise EKS's error if it does not exist or is not ACTIVE."""
        cluster = self.cluster(name)
        if cluster.status != "ACTIVE":
            raise invalid_request(f"Cluster '{name}' is not in ACTIVE status")
        return cluster
