"""The verbs of Custom::HyperPodClusterTeardown: on its Delete, no cluster of this stack is left.

The resource is created before the cluster and so deleted after it. A handler that was killed between CreateCluster
and its answer leaves a cluster whose Delete CloudFormation never sends; this Delete finds it by its tag.
"""

import logging
from collections.abc import Iterator
from typing import Any

from .ownership import Owner
from .request import Request
from .service import HyperPod

_log = logging.getLogger(__name__)

Answer = dict[str, Any]


def keep(request: Request, _: HyperPod) -> Answer:
    """Do nothing on Create and Update: the resource is there for its Delete."""
    return {"PhysicalResourceId": request.physical_id or f"teardown-{request.logical_id}"}


def is_kept(_: Request, __: HyperPod) -> Answer:
    """Done at once."""
    return {"IsComplete": True}


def delete(request: Request, hyperpod: HyperPod) -> Answer:
    """Delete every cluster that carries this stack's tag."""
    _delete_leftovers(request, hyperpod)
    return {"PhysicalResourceId": request.physical_id}


def is_deleted(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when no such cluster is left; one that appeared or was busy meanwhile is deleted now."""
    left = _delete_leftovers(request, hyperpod)
    return {"IsComplete": False, "Waiting": f"{', '.join(left)} is left"} if left else {"IsComplete": True}


def _delete_leftovers(request: Request, hyperpod: HyperPod) -> list[str]:
    """Ask for the deletion of what is left; return it with its status, also what is being deleted already."""
    left = list(_left(request, hyperpod))
    for cluster in left:
        if cluster["ClusterStatus"] != "Deleting":
            _log.warning("deleting cluster %s, which its own resource left", cluster["ClusterName"])
            hyperpod.delete(cluster["ClusterArn"])
    return [f"HyperPod cluster {cluster['ClusterName']} ({cluster['ClusterStatus']})" for cluster in left]


def _left(request: Request, hyperpod: HyperPod) -> Iterator[dict[str, Any]]:
    for cluster in hyperpod.clusters():
        owner = Owner.named_by(hyperpod.tags(cluster["ClusterArn"]) or {})
        if owner is not None and owner.stack_id == request.stack_id:
            yield cluster
