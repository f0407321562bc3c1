"""The verbs of Custom::HyperPodCluster. Physical id: the cluster's name.

Create makes one CreateCluster call, and nothing after it may raise: the framework forgets the id of a create that
fails, and its Delete then never comes (aws/aws-cdk#5525). What is lost that way, ClusterTeardown removes.
"Created" means accepted and InService. Nodes, deep health checks and capacity are not waited for: under continuous
provisioning they come and go by themselves, and a wait longer than CloudFormation's hour would delete a good cluster.

An answer that is not complete says in `Waiting` what for; nobody but `index` reads it.
"""

import logging
import re
from typing import Any

from botocore.exceptions import ClientError

from .changes import group_names, surplus_groups, update_request
from .errors import Refused, code
from .failure import why
from .ownership import Owner, added_groups, is_noted, note
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
    wanted["Tags"] = [{"Key": key, "Value": value} for key, value in _tags(wanted, request).items()]
    name = str(wanted["ClusterName"])
    adopted = False
    try:
        hyperpod.create(wanted)
    except ClientError as error:
        adopted = code(error) == "ResourceInUse" and _adopted(wanted, request, hyperpod)
        if not adopted:
            raise
    return {"PhysicalResourceId": name, "UpdateDeferred": adopted}


def _adopted(wanted: dict[str, Any], request: Request, hyperpod: HyperPod) -> bool:
    """Whether the name is taken by this resource's own cluster; False when it is not the name that is in use.

    It may be from an earlier deployment, whose create failed and was not rolled back, and not be as wanted now.
    """
    name = str(wanted["ClusterName"])
    existing = hyperpod.find(name)
    if existing is None:
        return False
    tags = hyperpod.tags(existing["ClusterArn"]) or {}
    owner = Owner.named_by(tags)
    if owner == Owner.of(request):
        _log.info("cluster %s is this resource's own, from an earlier request", name)
        _apply_tags(wanted, tags, request, hyperpod, existing["ClusterArn"])
        return True
    whose = f"belongs to {owner.logical_id} of stack {owner.stack_id}" if owner else "was not made by this stack"
    raise Refused(
        f"HyperPod cluster {name} exists already and {whose} (status {existing['ClusterStatus']}): "
        "choose another cluster name, or delete that cluster and deploy again"
    )


def is_created(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when InService, and as desired if it was taken over; raises when the cluster failed or is gone."""
    cluster = hyperpod.find(request.physical_id)
    if cluster is None:
        if hyperpod.now() - request.accepted_at < CONSISTENCY_SECONDS:
            return _waiting("it is not known to DescribeCluster yet")
        raise Refused(f"HyperPod cluster {request.physical_id} is gone: it was deleted while it was being created")
    if cluster["ClusterStatus"] == "Deleting":
        raise Refused(f"HyperPod cluster {request.physical_id} is being deleted by somebody else")
    answer = _settled(cluster, hyperpod)
    return _caught_up(answer, cluster, request, hyperpod) if request.deferred and answer["IsComplete"] else answer


def update(request: Request, hyperpod: HyperPod) -> Answer:
    """Send one UpdateCluster if the live cluster differs; leave it to is_updated while the cluster is busy."""
    cluster = _existing(request, hyperpod)
    tags = _own_tags(cluster, request, hyperpod)
    _note_added(tags, cluster, request, hyperpod)
    desired = create_request(request.properties, hyperpod.model)
    removable = _removable(desired, cluster, request, hyperpod)
    wanted = update_request(desired, cluster, request.old_properties, removable)
    busy = "" if wanted is None else _sent(wanted, cluster, request, hyperpod)
    _apply_tags(desired, tags, request, hyperpod, cluster["ClusterArn"])
    return {"PhysicalResourceId": request.physical_id, "UpdateDeferred": bool(busy)}


def is_updated(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when the cluster is InService and as desired; raises when the service took the update back."""
    cluster = _existing(request, hyperpod)
    if cluster["ClusterStatus"] == "RollingBack":
        return _waiting("it is RollingBack")
    answer = _settled(cluster, hyperpod)
    if not answer["IsComplete"]:
        return answer
    if request.deferred:
        return _caught_up(answer, cluster, request, hyperpod)
    desired = create_request(request.properties, hyperpod.model)
    # What was taken away has been, once the update was sent: what shows then are the service's defaults.
    if update_request(desired, cluster, {}, _removable(desired, cluster, request, hyperpod)) is None:
        return answer
    if hyperpod.now() - request.accepted_at > CONSISTENCY_SECONDS:
        raise Refused(why(hyperpod, cluster, "accepted the update but did not keep it"))
    return _waiting("it does not show the update yet")


def _caught_up(answer: Answer, cluster: dict[str, Any], request: Request, hyperpod: HyperPod) -> Answer:
    """Send the update that `on_event` could not send, or need not have known of; `answer` when there is none."""
    desired = create_request(request.properties, hyperpod.model)
    removable = _removable(desired, cluster, request, hyperpod)
    missing = update_request(desired, cluster, request.old_properties, removable)
    if missing is None:
        return answer
    _own_tags(cluster, request, hyperpod)
    return _waiting(_sent(missing, cluster, request, hyperpod) or "the update was sent")


def _note_added(tags: dict[str, str], cluster: dict[str, Any], request: Request, hyperpod: HyperPod) -> None:
    """Write down which groups the update adds, before anything can fail: a rollback may remove those."""
    added = group_names(request.properties) - group_names(cluster)
    if is_noted(request, tags) or not (added or added_groups(tags)) or hyperpod.rolls_back(request.stack_id):
        return
    hyperpod.add_tags(cluster["ClusterArn"], note(request, added))


def _removable(desired: dict[str, Any], cluster: dict[str, Any], request: Request, hyperpod: HyperPod) -> set[str]:
    """Which of the live groups that are not desired may go with their nodes; raises Refused where that is unclear.

    Those that the template confirms. When CloudFormation goes back, also those that the update that failed has added;
    others are then left alone, for a rollback must not fail where nothing can be confirmed.
    """
    surplus = surplus_groups(desired, cluster)
    unconfirmed = surplus - request.confirmed
    if not unconfirmed:
        return surplus
    if hyperpod.rolls_back(request.stack_id):
        return surplus & (request.confirmed | added_groups(hyperpod.tags(cluster["ClusterArn"]) or {}))
    names = ", ".join(sorted(unconfirmed))
    raise Refused(
        f"Instance group {names} of HyperPod cluster {cluster['ClusterName']} would be removed with its nodes: "
        "list it under hyperpod.confirm_group_removal in the environment's file, or keep it in instance_groups"
    )


def delete(request: Request, hyperpod: HyperPod) -> Answer:
    """Delete the cluster if it exists and is this resource's; the properties are not read, they may be old."""
    _remove(request, hyperpod)
    return {"PhysicalResourceId": request.physical_id}


def is_deleted(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when the cluster is not found; asks for the deletion again where the first call met a busy cluster."""
    status = _remove(request, hyperpod)
    return _waiting(f"it is {status}") if status else {"IsComplete": True}


def _remove(request: Request, hyperpod: HyperPod) -> str:
    """Ask for the deletion of this resource's cluster; returns its status before, "" when it is gone.

    It is gone also when the name is now another's cluster.
    """
    if not _NAME.fullmatch(request.physical_id):
        # An id that CloudFormation or the framework made up for a create that never reached the API.
        return ""
    cluster = hyperpod.find(request.physical_id)
    if cluster is None:
        return ""
    status: str = cluster["ClusterStatus"]
    if status == "Deleting":
        return status
    tags = hyperpod.tags(cluster["ClusterArn"])
    if tags is None:
        # It went between the two calls, or is too new for ListTags: the next look tells.
        return status
    owner = Owner.named_by(tags)
    if owner is None:
        raise _no_owner(request)
    if owner != Owner.of(request):
        _log.warning("cluster %s belongs to %s; it stays", request.physical_id, owner)
        return ""
    hyperpod.delete(cluster["ClusterArn"])
    return status


def _own_tags(cluster: dict[str, Any], request: Request, hyperpod: HyperPod) -> dict[str, str]:
    """The tags of this resource's cluster; raises Refused when it is somebody else's of the same name."""
    tags = hyperpod.tags(cluster["ClusterArn"]) or {}
    owner = Owner.named_by(tags)
    if owner is None:
        raise _no_owner(request)
    if owner != Owner.of(request):
        raise Refused(
            f"HyperPod cluster {request.physical_id} is not this stack's any more, it belongs to {owner.logical_id} of "
            f"stack {owner.stack_id}: destroy this stack and what depends on it, then deploy again"
        )
    return tags


def _no_owner(request: Request) -> Refused:
    return Refused(
        f"HyperPod cluster {request.physical_id} carries no tag that names its stack, so it is left alone: give it "
        f"the tags of this stack, or delete it by hand; then try again\nIts tags: {Owner.of(request).tags}"
    )


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
        return _waiting(f"it is {status}")
    data = {"ClusterArn": cluster["ClusterArn"], "ClusterName": cluster["ClusterName"]}
    return {"IsComplete": True, "Data": data}


def _waiting(why: str) -> Answer:
    return {"IsComplete": False, "Waiting": why}


def _sent(wanted: dict[str, Any], cluster: dict[str, Any], request: Request, hyperpod: HyperPod) -> str:
    """Send the update; returns why the cluster cannot take it now, "" when it was taken."""
    name = cluster["ClusterName"]
    if cluster["ClusterStatus"] in {"Failed", "Deleting"}:
        raise Refused(
            f"HyperPod cluster {name} is {cluster['ClusterStatus']} and takes no update: "
            "destroy this stack and what depends on it, then deploy again"
        )
    checked = _in_deep_checks(name, hyperpod)
    if checked:
        # Refused forwards, where that costs nothing. A rollback has no other chance, so it waits.
        if hyperpod.rolls_back(request.stack_id):
            return checked
        raise Refused(
            f"HyperPod cluster {name} takes no update while {checked}: wait until they have passed (ops wait), "
            "then deploy again"
        )
    try:
        hyperpod.update(wanted)
    except ClientError as error:
        if code(error) != "ConflictException":
            raise
        return f"it takes no update now: {error.response['Error'].get('Message', 'ConflictException')}"
    return ""


def _in_deep_checks(name: str, hyperpod: HyperPod) -> str:
    """How many nodes of which groups are in deep health checks; "" when none is."""
    checked = [node for node in hyperpod.nodes(name) if node["InstanceStatus"]["Status"] == "DeepHealthCheckInProgress"]
    groups = ", ".join(sorted({node["InstanceGroupName"] for node in checked}))
    return f"{len(checked)} of its nodes are in deep health checks ({groups})" if checked else ""


def _tags(desired: dict[str, Any], request: Request) -> dict[str, str]:
    """The tags that the cluster is to have; nobody can give it to another owner by them."""
    return {tag["Key"]: tag["Value"] for tag in desired.get("Tags", [])} | Owner.of(request).tags


def _apply_tags(desired: dict[str, Any], live: dict[str, str], request: Request, hyperpod: HyperPod, arn: str) -> None:
    given = request.old_properties.get("Tags")
    before = {tag["Key"] for tag in given if "Key" in tag} if isinstance(given, list) else set()
    wanted = _tags(desired, request)
    if any(live.get(key) != value for key, value in wanted.items()):
        hyperpod.add_tags(arn, wanted)
    if removed := sorted(before & live.keys() - wanted.keys()):
        hyperpod.remove_tags(arn, removed)
