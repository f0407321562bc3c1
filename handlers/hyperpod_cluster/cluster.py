"""The verbs of Custom::HyperPodCluster. Physical id: the cluster's name.

Create makes one CreateCluster call, and nothing after it may raise: the framework forgets the id of a create that
fails, and its Delete then never comes (aws/aws-cdk#5525). What is lost that way, ClusterTeardown removes.
"Created" means accepted and InService. Nodes, deep health checks and capacity are not waited for: under continuous
provisioning they come and go by themselves, and a wait longer than CloudFormation's hour would delete a good cluster.
"""

import logging
import re
from typing import Any

from botocore.exceptions import ClientError

from .changes import update_request
from .errors import Refused, code
from .failure import why
from .ownership import Owner
from .properties import create_request
from .request import Request
from .service import HyperPod

CONSISTENCY_SECONDS = 300
"""How long DescribeCluster may not know a cluster whose creation was accepted."""

# CreateCluster, ClusterName.
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_FAILED = frozenset({"Failed", "RollingBack"})
_log = logging.getLogger(__name__)

Answer = dict[str, Any]


def create(request: Request, hyperpod: HyperPod) -> Answer:
    """Create the cluster, or take over the one that this very resource created in an earlier delivery."""
    wanted = create_request(request.properties, hyperpod.model)
    tags = {tag["Key"]: tag["Value"] for tag in wanted.get("Tags", [])} | Owner.of(request).tags
    wanted["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    name = str(wanted["ClusterName"])
    try:
        hyperpod.create(wanted)
    except ClientError as error:
        if code(error) != "ResourceInUse" or not _adopted(name, request, hyperpod):
            raise
    return {"PhysicalResourceId": name, "AcceptedAt": hyperpod.now()}


def _adopted(name: str, request: Request, hyperpod: HyperPod) -> bool:
    """Whether the name is taken by this resource's own cluster; False when it is not the name that is in use."""
    existing = hyperpod.find(name)
    if existing is None:
        return False
    owner = Owner.named_by(hyperpod.tags(existing["ClusterArn"]))
    if owner == Owner.of(request):
        _log.info("cluster %s is this resource's own, from an earlier delivery of the request", name)
        return True
    whose = f"belongs to {owner.logical_id} of stack {owner.stack_id}" if owner else "was not made by this stack"
    raise Refused(
        f"HyperPod cluster {name} exists already and {whose} (status {existing['ClusterStatus']}): "
        "choose another cluster name, or delete that cluster and deploy again"
    )


def is_created(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when InService; raises with the events' text when the cluster failed or is gone."""
    cluster = hyperpod.find(request.physical_id)
    if cluster is None:
        if hyperpod.now() - request.accepted_at < CONSISTENCY_SECONDS:
            return {"IsComplete": False}
        raise Refused(f"HyperPod cluster {request.physical_id} is gone: it was deleted while it was being created")
    if cluster["ClusterStatus"] == "Deleting":
        raise Refused(f"HyperPod cluster {request.physical_id} is being deleted by somebody else")
    return _settled(cluster, hyperpod)


def update(request: Request, hyperpod: HyperPod) -> Answer:
    """Send one UpdateCluster if the live cluster differs; leave it to is_updated while the cluster is busy."""
    cluster = _existing(request, hyperpod)
    desired = create_request(request.properties, hyperpod.model)
    wanted = update_request(desired, cluster, request.old_properties)
    sent = wanted is None or _sent(wanted, cluster, hyperpod)
    _apply_tags(desired, request, hyperpod, cluster["ClusterArn"])
    return {"PhysicalResourceId": request.physical_id, "AcceptedAt": hyperpod.now(), "UpdateDeferred": not sent}


def is_updated(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when the cluster is InService and as desired; raises when the service took the update back."""
    cluster = _existing(request, hyperpod)
    if cluster["ClusterStatus"] == "RollingBack":
        return {"IsComplete": False}
    answer = _settled(cluster, hyperpod)
    if not answer["IsComplete"]:
        return answer
    missing = update_request(create_request(request.properties, hyperpod.model), cluster, {})
    if missing is None:
        return answer
    if request.deferred:
        _sent(missing, cluster, hyperpod)
    elif hyperpod.now() - request.accepted_at > CONSISTENCY_SECONDS:
        raise Refused(why(hyperpod, cluster, "accepted the update but did not keep it"))
    return {"IsComplete": False}


def delete(request: Request, hyperpod: HyperPod) -> Answer:
    """Delete the cluster if it exists and is this resource's; the properties are not read, they may be old."""
    cluster = _own(request, hyperpod)
    if cluster is not None:
        hyperpod.delete(cluster["ClusterArn"])
    return {"PhysicalResourceId": request.physical_id}


def is_deleted(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when the cluster is not found; asks for the deletion again where the first call met a busy cluster."""
    cluster = _own(request, hyperpod)
    if cluster is not None and cluster["ClusterStatus"] != "Deleting":
        hyperpod.delete(cluster["ClusterArn"])
    return {"IsComplete": cluster is None}


def _own(request: Request, hyperpod: HyperPod) -> dict[str, Any] | None:
    """The cluster of this resource; None when it is gone, also when the name is now another's cluster."""
    if not _NAME.fullmatch(request.physical_id):
        # An id that CloudFormation or the framework made up for a create that never reached the API.
        return None
    cluster = hyperpod.find(request.physical_id)
    if cluster is None or cluster["ClusterStatus"] == "Deleting":
        return cluster
    owner = Owner.named_by(hyperpod.tags(cluster["ClusterArn"]))
    if owner is None:
        raise Refused(
            f"HyperPod cluster {request.physical_id} carries no tag that names its stack, so it is not deleted: "
            f"give it the tags {Owner.of(request).tags}, or delete it by hand; then try again"
        )
    if owner != Owner.of(request):
        _log.warning("cluster %s belongs to %s; it stays", request.physical_id, owner)
        return None
    return cluster


def _existing(request: Request, hyperpod: HyperPod) -> dict[str, Any]:
    cluster = hyperpod.find(request.physical_id)
    if cluster is None:
        raise Refused(
            f"HyperPod cluster {request.physical_id} does not exist any more: "
            "destroy this stack and what depends on it, then deploy again"
        )
    return cluster


def _settled(cluster: dict[str, Any], hyperpod: HyperPod) -> Answer:
    status = cluster["ClusterStatus"]
    if status in _FAILED:
        raise Refused(why(hyperpod, cluster, f"is {status}"))
    if status != "InService":
        return {"IsComplete": False}
    data = {"ClusterArn": cluster["ClusterArn"], "ClusterName": cluster["ClusterName"]}
    return {"IsComplete": True, "Data": data}


def _sent(wanted: dict[str, Any], cluster: dict[str, Any], hyperpod: HyperPod) -> bool:
    """Send the update; False when the cluster is too busy to take it now."""
    _refuse_unable(cluster, hyperpod)
    try:
        hyperpod.update(wanted)
    except ClientError as error:
        if code(error) != "ConflictException":
            raise
        return False
    return True


def _refuse_unable(cluster: dict[str, Any], hyperpod: HyperPod) -> None:
    name = cluster["ClusterName"]
    if cluster["ClusterStatus"] in {"Failed", "Deleting"}:
        raise Refused(
            f"HyperPod cluster {name} is {cluster['ClusterStatus']} and takes no update: "
            "destroy this stack and what depends on it, then deploy again"
        )
    checked = [node for node in hyperpod.nodes(name) if node["InstanceStatus"]["Status"] == "DeepHealthCheckInProgress"]
    if checked:
        groups = ", ".join(sorted({node["InstanceGroupName"] for node in checked}))
        raise Refused(
            f"HyperPod cluster {name} takes no update while {len(checked)} of its nodes are in deep health checks "
            f"({groups}): wait until they have passed (ops wait), then deploy again"
        )


def _apply_tags(desired: dict[str, Any], request: Request, hyperpod: HyperPod, arn: str) -> None:
    tags = {tag["Key"]: tag["Value"] for tag in desired.get("Tags", [])}
    before = {tag["Key"]: tag["Value"] for tag in request.old_properties.get("Tags", [])}
    if tags == before:
        return
    if tags:
        hyperpod.add_tags(arn, tags)
    if removed := sorted(before.keys() - tags.keys()):
        hyperpod.remove_tags(arn, removed)
