"""Delete every leftover cluster of a stack: Custom::HyperPodClusterTeardown, the guard.

The guard is created before the cluster, so CloudFormation deletes it after the cluster. If a handler was killed between
CreateCluster and its answer, CloudFormation never sends the cluster's Delete; the guard finds that cluster by its tag.

The guard acts only while the whole stack is deleted (ADR 33). A Delete of the guard during an update means that it got
another logical id, or that the update that added it is rolled back: the cluster must stay.
"""

import logging
from collections.abc import Iterator
from typing import Any

from .failure import state_of
from .ownership import OwningResource
from .precedence import STACK_GOES
from .request import CustomResourceRequest
from .service import RECHECK_SECONDS, HyperPodClient

_log = logging.getLogger(__name__)

Answer = dict[str, Any]


class TeardownHandler:
    """Handles one invocation for one request of the guard."""

    def __init__(self, request: CustomResourceRequest, hyperpod: HyperPodClient) -> None:
        self._request = request
        self._hyperpod = hyperpod

    def create(self) -> Answer:
        """Return the physical id; only a Delete of the guard does anything."""
        return {"PhysicalResourceId": self._request.physical_id or f"teardown-{self._request.logical_id}"}

    def is_created(self) -> Answer:
        """Return that there is nothing to wait for."""
        return {"IsComplete": True}

    update = create
    is_updated = is_created

    def delete(self) -> Answer:
        """Delete every cluster that carries this stack's tag, if the stack is being deleted."""
        answer = {"PhysicalResourceId": self._request.physical_id}
        status = self._hyperpod.stack_status(self._request.stack_id)
        if status not in STACK_GOES:
            _log.info("the stack is %s: not deleting its cluster", status)
            return answer
        self._delete_leftovers()
        return answer

    def is_deleted(self) -> Answer:
        """Return whether no cluster is left, or the stack stays; delete a cluster that was busy before."""
        status = self._hyperpod.stack_status(self._request.stack_id)
        if status not in STACK_GOES:
            return {"IsComplete": True}
        left = self._delete_leftovers()
        if left:
            return {"IsComplete": False, "Waiting": f"{', '.join(left)} is left"}
        age = self._hyperpod.now() - self._request.accepted_at
        if status == "ROLLBACK_IN_PROGRESS" and age < RECHECK_SECONDS:
            # CreateCluster may have been accepted seconds ago: ListClusters lags.
            return {"IsComplete": False, "Waiting": "a cluster that was just created may not be listed yet"}
        return {"IsComplete": True}

    def _delete_leftovers(self) -> list[str]:
        """Delete the clusters that are left; return them with their status, including those already being deleted."""
        left = list(self._left())
        for cluster in left:
            if cluster["ClusterStatus"] != "Deleting":
                _log.warning("deleting leftover cluster %s", cluster["ClusterName"])
                self._hyperpod.delete(cluster["ClusterArn"])
        # The summaries of ListClusters have no failure message.
        described = [self._hyperpod.find(cluster["ClusterArn"]) or cluster for cluster in left]
        return [f"HyperPod cluster {cluster['ClusterName']} ({state_of(cluster)})" for cluster in described]

    def _left(self) -> Iterator[dict[str, Any]]:
        for cluster in self._hyperpod.clusters():
            owner = OwningResource.named_by(self._hyperpod.tags(cluster["ClusterArn"]) or {})
            if owner is not None and owner.stack_id == self._request.stack_id:
                yield cluster
