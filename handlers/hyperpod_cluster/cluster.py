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

from .errors import RefusedRequestError, code
from .failure import state_of, why
from .ownership import Owner
from .precedence import Precedence, created_by, requests_tag
from .properties import create_request
from .request import Request
from .service import HyperPod
from .update import ClusterUpdate, gone, no_owner, wanted_tags

CONSISTENCY_SECONDS = 300
"""How long DescribeCluster may not know a cluster whose creation was accepted."""

LOOK_AGAIN_SECONDS = 30
"""How long after a look that found nothing the next one comes, where a cluster may be too new to be seen."""

# CreateCluster, ClusterName.
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_FAILED = frozenset({"Failed", "RollingBack"})
_log = logging.getLogger(__name__)

Answer = dict[str, Any]


def create(request: Request, hyperpod: HyperPod) -> Answer:
    """Create the cluster, or take over the one that this very resource created in an earlier delivery."""
    wanted = create_request(request.properties, hyperpod.model)
    tags = wanted_tags(wanted, request) | requests_tag(request.id)
    wanted["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    name = str(wanted["ClusterName"])
    precedence = Precedence(request, hyperpod)
    differs = False
    try:
        hyperpod.create(wanted)
    except ClientError as error:
        tags_before = _adopted(name, request, hyperpod, precedence) if code(error) == "ResourceInUse" else None
        if tags_before is None:
            raise
        # What this very request has created is as it asks for; what differs by now was changed by hand.
        differs = not created_by(request, tags_before)
    return {"PhysicalResourceId": name, "UpdateDeferred": differs} | precedence.answer


def _adopted(name: str, request: Request, hyperpod: HyperPod, precedence: Precedence) -> dict[str, str] | None:
    """Take over this resource's own cluster of that name; return its tags before, None when the name is not in use.

    It may be from an earlier deployment, whose create failed and was not rolled back, and not be as wanted now.
    """
    existing, tags = _known(name, hyperpod)
    if existing is None:
        return None
    owner = Owner.named_by(tags)
    if owner == Owner.of(request):
        _log.info("cluster %s is this resource's own, from an earlier request", name)
        precedence.register(existing["ClusterArn"], tags, {})
        ClusterUpdate(existing, request, hyperpod, precedence).apply_tags(tags)
        return tags
    whose = f"belongs to {owner.logical_id} of stack {owner.stack_id}" if owner else "was not made by this stack"
    raise RefusedRequestError(
        f"HyperPod cluster {name} exists already and {whose} (status {existing['ClusterStatus']}): "
        "choose another cluster name, or delete that cluster and deploy again"
    )


def _known(name: str, hyperpod: HyperPod) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the cluster of this name with its tags, None where it is not known while the invocation has time.

    Reads lag behind a creation: a cluster that is new, or not known yet, may be the one whose answer was lost.
    """
    while True:
        cluster = hyperpod.find(name)
        tags = (hyperpod.tags(cluster["ClusterArn"]) if cluster else None) or {}
        lags = cluster is None or (Owner.named_by(tags) is None and _is_new(cluster, hyperpod))
        if not (lags and hyperpod.pause()):
            return cluster, tags


def _is_new(cluster: dict[str, Any], hyperpod: HyperPod) -> bool:
    age: float = hyperpod.now() - cluster["CreationTime"].timestamp()
    return age < CONSISTENCY_SECONDS


def is_created(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when InService, and as desired if it was taken over; raises when the cluster failed or is gone."""
    cluster = hyperpod.find(request.physical_id)
    if cluster is None:
        if hyperpod.now() - request.accepted_at < CONSISTENCY_SECONDS:
            return _waiting("it is not known to DescribeCluster yet")
        raise RefusedRequestError(
            f"HyperPod cluster {request.physical_id} is gone: it was deleted while it was being created"
        )
    if cluster["ClusterStatus"] == "Deleting":
        raise RefusedRequestError(f"HyperPod cluster {request.physical_id} is being deleted by somebody else")
    answer = _settled(cluster, hyperpod)
    if not (request.deferred and answer["IsComplete"]):
        return answer
    change = _begun(cluster, request, hyperpod)
    missing = change.missing()
    return answer if missing is None else _sent(missing, change)


def update(request: Request, hyperpod: HyperPod) -> Answer:
    """Send one UpdateCluster if the live cluster differs; leave it to is_updated while the cluster is busy."""
    precedence = Precedence(request, hyperpod)
    change = ClusterUpdate(_existing(request, hyperpod), request, hyperpod, precedence)
    tags = change.own_tags()
    change.register(tags)
    missing = change.missing()
    busy = "" if missing is None else change.send(missing)
    change.apply_tags(tags)
    # What another update makes of a cluster that is as desired now, nobody knows before that one has ended; and the one
    # that is taken back may have been accepted seconds ago.
    unsettled = not change.in_service or precedence.goes_back()
    deferred = bool(busy) or (missing is None and unsettled)
    return {"PhysicalResourceId": request.physical_id, "UpdateDeferred": deferred} | precedence.answer


def is_updated(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when the cluster is InService and as desired; raises when the service took the update back."""
    cluster = _existing(request, hyperpod)
    if cluster["ClusterStatus"] == "RollingBack":
        return _waiting("it is RollingBack")
    answer = _settled(cluster, hyperpod)
    if not answer["IsComplete"]:
        return answer
    change = _begun(cluster, request, hyperpod)
    missing = change.missing()
    if missing is None:
        if request.goes_back and request.deferred and hyperpod.now() - request.accepted_at < LOOK_AGAIN_SECONDS:
            return _waiting("what is taken back may not be seen yet")
        change.forget_added()
        return answer
    if request.deferred:
        return _sent(missing, change)
    if hyperpod.now() - request.accepted_at > CONSISTENCY_SECONDS:
        raise RefusedRequestError(why(hyperpod, cluster, "accepted the update but did not keep it"))
    return _waiting("it does not show the update yet")


def _begun(cluster: dict[str, Any], request: Request, hyperpod: HyperPod) -> ClusterUpdate:
    """Return the update that `on_event` began."""
    precedence = Precedence(request, hyperpod)
    precedence.follow(cluster["ClusterArn"])
    return ClusterUpdate(cluster, request, hyperpod, precedence)


def _sent(missing: dict[str, Any], change: ClusterUpdate) -> Answer:
    """Send the update that `on_event` could not send, or need not have known of."""
    change.own_tags()
    return _waiting(change.send(missing) or "the update was sent")


def delete(request: Request, hyperpod: HyperPod) -> Answer:
    """Delete the cluster if it exists and is this resource's; the properties are not read, they may be old."""
    _remove(request, hyperpod, twice=True)
    return {"PhysicalResourceId": request.physical_id}


def is_deleted(request: Request, hyperpod: HyperPod) -> Answer:
    """Done when the cluster is not found; asks for the deletion again where the first call met a busy cluster."""
    status = _remove(request, hyperpod, twice=False)
    return _waiting(f"it is {status}") if status else {"IsComplete": True}


def _remove(request: Request, hyperpod: HyperPod, *, twice: bool) -> str:
    """Ask for the deletion of this resource's cluster; returns its state before, "" when it is gone.

    It is gone also when the name is now another's cluster. With `twice`, a cluster that is not found is looked for
    again: a creation that failed a moment ago may not be known yet.
    """
    if not _NAME.fullmatch(request.physical_id):
        # An id that CloudFormation or the framework made up for a create that never reached the API.
        return ""
    cluster = hyperpod.find(request.physical_id)
    if cluster is None and twice:
        hyperpod.sleep(LOOK_AGAIN_SECONDS)
        cluster = hyperpod.find(request.physical_id)
    if cluster is None:
        return ""
    state = state_of(cluster)
    if cluster["ClusterStatus"] == "Deleting":
        return state
    tags = hyperpod.tags(cluster["ClusterArn"])
    owner = Owner.named_by(tags or {})
    if tags is None or (owner is None and _is_new(cluster, hyperpod)):
        # It went between the two calls, or is too new for ListTags: the next look tells.
        return state
    if owner is None:
        raise no_owner(request)
    if owner != Owner.of(request):
        _log.warning("cluster %s belongs to %s; it stays", request.physical_id, owner)
        return ""
    hyperpod.delete(cluster["ClusterArn"])
    return state


def _existing(request: Request, hyperpod: HyperPod) -> dict[str, Any]:
    cluster = hyperpod.find(request.physical_id)
    if cluster is None:
        raise gone(request)
    return cluster


def _settled(cluster: dict[str, Any], hyperpod: HyperPod) -> Answer:
    status = cluster["ClusterStatus"]
    if status in _FAILED:
        raise RefusedRequestError(why(hyperpod, cluster, f"is {status}"))
    if status != "InService":
        return _waiting(f"it is {status}")
    data = {"ClusterArn": cluster["ClusterArn"], "ClusterName": cluster["ClusterName"]}
    return {"IsComplete": True, "Data": data}


def _waiting(why: str) -> Answer:
    return {"IsComplete": False, "Waiting": why}
