"""The verbs of Custom::HyperPodClusterTeardown: its Delete removes all clusters that this stack has left.

The resource is created before the cluster and therefore deleted after it. A handler that is killed between
CreateCluster and its answer leaves a cluster for which CloudFormation never sends a Delete. This resource's Delete
finds that cluster by its tag.

It acts only while the whole stack is deleted (ADR 33). During an update its Delete means that the resource got another
logical id, or was added by an update that is rolled back: then the cluster stays.
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


def keep(request: Request, _: HyperPod) -> Answer:
    """Do nothing on Create and Update; only the Delete acts."""
    return {"PhysicalResourceId": request.physical_id or f"teardown-{request.logical_id}"}


def is_kept(_: Request, __: HyperPod) -> Answer:
    """Return that Create and Update are complete."""
    return {"IsComplete": True}


def delete(request: Request, hyperpod: HyperPod) -> Answer:
    """Delete every cluster that carries this stack's tag, if the whole stack is deleted."""
    answer = {"PhysicalResourceId": request.physical_id}
    status = hyperpod.stack_status(request.stack_id)
    if status not in _THE_STACK_GOES:
        _log.info("the stack is %s: its cluster stays", status)
        return answer
    left = _delete_leftovers(request, hyperpod)
    if not left and status == "ROLLBACK_IN_PROGRESS":
        # The creation that failed may have been accepted seconds ago.
        hyperpod.sleep(LOOK_AGAIN_SECONDS)
        _delete_leftovers(request, hyperpod)
    return answer


def is_deleted(request: Request, hyperpod: HyperPod) -> Answer:
    """Return whether no such cluster is left or the stack stays; delete a cluster that was busy before."""
    if hyperpod.stack_status(request.stack_id) not in _THE_STACK_GOES:
        return {"IsComplete": True}
    left = _delete_leftovers(request, hyperpod)
    return {"IsComplete": False, "Waiting": f"{', '.join(left)} is left"} if left else {"IsComplete": True}


def _delete_leftovers(request: Request, hyperpod: HyperPod) -> list[str]:
    """Delete the remaining clusters; return a phrase for each with its status, also if it is already being deleted."""
    left = list(_left(request, hyperpod))
    for cluster in left:
        if cluster["ClusterStatus"] != "Deleting":
            _log.warning("deleting cluster %s, which its own resource left", cluster["ClusterName"])
            hyperpod.delete(cluster["ClusterArn"])
    # Summaries have no failure message.
    described = [hyperpod.find(cluster["ClusterArn"]) or cluster for cluster in left]
    return [f"HyperPod cluster {cluster['ClusterName']} ({state_of(cluster)})" for cluster in described]


def _left(request: Request, hyperpod: HyperPod) -> Iterator[dict[str, Any]]:
    for cluster in hyperpod.clusters():
        owner = Owner.named_by(hyperpod.tags(cluster["ClusterArn"]) or {})
        if owner is not None and owner.stack_id == request.stack_id:
            yield cluster
