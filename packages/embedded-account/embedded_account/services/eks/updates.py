"""EKS's Update objects: of a new Kubernetes version while it starts, of other changes once they are complete."""

import uuid
from collections.abc import Mapping
from typing import Any

from moto.core.utils import utcnow

from embedded_account.services.eks.errors import not_found


class Updates:
    """The updates of all clusters, newest last."""

    def __init__(self) -> None:
        self._updates: dict[tuple[str, str], dict[str, Any]] = {}

    def record(
        self, cluster_name: str, kind: str, *, status: str = "Successful", params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Record a change, by default one that has been carried out, and return its Update."""
        update = {
            "id": str(uuid.uuid4()),
            "status": status,
            "type": kind,
            "params": [{"type": name, "value": value} for name, value in (params or {}).items()],
            "createdAt": utcnow(),
            "errors": [],
        }
        self._updates[cluster_name, update["id"]] = update
        return update

    def get(self, cluster_name: str, update_id: str) -> dict[str, Any]:
        """Return one Update; raise EKS's error if it does not exist."""
        if (cluster_name, update_id) not in self._updates:
            raise not_found(f"No update found for ID: {update_id}")
        return self._updates[cluster_name, update_id]

    def ids(self, cluster_name: str) -> list[str]:
        """Return the ids of the cluster's updates."""
        return [update_id for name, update_id in self._updates if name == cluster_name]
