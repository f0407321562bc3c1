"""The verbs of Custom::HyperPodClusterTeardown: on its Delete, no cluster of this stack is left.

The resource is created before the cluster and so deleted after it. A handler that was killed between CreateCluster
and its answer leaves a cluster whose Delete CloudFormation never sends; this Delete finds it by its tag.

It acts only while the whole stack goes (ADR 33). During an update its Delete means that the resource got another
logical id, or was added by an update that is rolled back: the cluster lives on.
"""

import logging
from collections.abc import Iterator
from typing import Any

from .cluster import LOOK_AGAIN_SECONDS
from .failure import state_of
from .ownership import Owner
from .request import Request
from .service import HyperPod

_THE_STACK_GOES = frozenset({"DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"})
_log = logging.getLogger(__name__)

Answer = dict[str, Any]


class TeardownHandler:
    """One invocation for one request of the guard."""

    def __init__(self, request: Request, hyperpod: HyperPod) -> None:
        self._request = request
        self._hyperpod = hyperpod

    def create(self) -> Answer:
        """Do nothing: the resource is there for its Delete."""
        return {"PhysicalResourceId": self._request.physical_id or f"teardown-{self._request.logical_id}"}

    def is_created(self) -> Answer:
        """Done at once."""
        return {"IsComplete": True}

    update = create
    is_updated = is_created

    def delete(self) -> Answer:
        """Delete every cluster that carries this stack's tag, if the stack goes."""
        answer = {"PhysicalResourceId": self._request.physical_id}
        status = self._hyperpod.stack_status(self._request.stack_id)
        if status not in _THE_STACK_GOES:
            _log.info("the stack is %s: its cluster stays", status)
            return answer
        left = self._delete_leftovers()
        if not left and status == "ROLLBACK_IN_PROGRESS":
            # The creation that failed may have been accepted seconds ago.
            self._hyperpod.sleep(LOOK_AGAIN_SECONDS)
            self._delete_leftovers()
        return answer

    def is_deleted(self) -> Answer:
        """Done when no such cluster is left, or the stack stays; one that was busy meanwhile is deleted now."""
        if self._hyperpod.stack_status(self._request.stack_id) not in _THE_STACK_GOES:
            return {"IsComplete": True}
        left = self._delete_leftovers()
        return {"IsComplete": False, "Waiting": f"{', '.join(left)} is left"} if left else {"IsComplete": True}

    def _delete_leftovers(self) -> list[str]:
        """Ask for the deletion of what is left; return it with its status, also what is being deleted already."""
        left = list(self._left())
        for cluster in left:
            if cluster["ClusterStatus"] != "Deleting":
                _log.warning("deleting cluster %s, which its own resource left", cluster["ClusterName"])
                self._hyperpod.delete(cluster["ClusterArn"])
        # Summaries have no message of a failure.
        described = [self._hyperpod.find(cluster["ClusterArn"]) or cluster for cluster in left]
        return [f"HyperPod cluster {cluster['ClusterName']} ({state_of(cluster)})" for cluster in described]

    def _left(self) -> Iterator[dict[str, Any]]:
        for cluster in self._hyperpod.clusters():
            owner = Owner.named_by(self._hyperpod.tags(cluster["ClusterArn"]) or {})
            if owner is not None and owner.stack_id == self._request.stack_id:
                yield cluster
