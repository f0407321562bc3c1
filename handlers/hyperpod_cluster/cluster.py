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


class ClusterHandler:
    """One invocation for one request of the cluster: what it is given, and the guard of all that it changes."""

    def __init__(self, request: Request, hyperpod: HyperPod) -> None:
        self._request = request
        self._hyperpod = hyperpod
        self._precedence = Precedence(request, hyperpod)
        if request.type != "Delete":
            # After a Delete nothing comes that it could disturb.
            hyperpod.before_change = self._precedence.verify

    def create(self) -> Answer:
        """Create the cluster, or take over the one that this very resource created in an earlier delivery."""
        wanted = create_request(self._request.properties, self._hyperpod.model)
        tags = wanted_tags(wanted, self._request) | requests_tag(self._request.id)
        wanted["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
        name = str(wanted["ClusterName"])
        differs = False
        try:
            self._hyperpod.create(wanted)
        except ClientError as error:
            tags_before = self._adopted(name) if code(error) == "ResourceInUse" else None
            if tags_before is None:
                raise
            # What this very request has created is as it asks for; what differs by now was changed by hand.
            differs = not created_by(self._request, tags_before)
        return {"PhysicalResourceId": name, "UpdateDeferred": differs} | self._precedence.answer

    def is_created(self) -> Answer:
        """Done when InService, and as desired if it was taken over; raises when the cluster failed or is gone."""
        name = self._request.physical_id
        cluster = self._hyperpod.find(name)
        if cluster is None:
            if self._hyperpod.now() - self._request.accepted_at < CONSISTENCY_SECONDS:
                return _waiting("it is not known to DescribeCluster yet")
            raise RefusedRequestError(f"HyperPod cluster {name} is gone: it was deleted while it was being created")
        if cluster["ClusterStatus"] == "Deleting":
            raise RefusedRequestError(f"HyperPod cluster {name} is being deleted by somebody else")
        answer = self._settled(cluster)
        if not (self._request.deferred and answer["IsComplete"]):
            return answer
        change = self._begun(cluster)
        missing = change.missing()
        return answer if missing is None else _sent(missing, change)

    def update(self) -> Answer:
        """Send one UpdateCluster if the live cluster differs; leave it to is_updated while the cluster is busy."""
        change = self._change(self._existing())
        tags = change.own_tags()
        change.register(tags)
        missing = change.missing()
        busy = "" if missing is None else change.send(missing)
        change.apply_tags(tags)
        # What another update makes of a cluster that is as desired now, nobody knows before that one has ended; and the
        # one that is taken back may have been accepted seconds ago.
        unsettled = not change.in_service or self._precedence.goes_back()
        deferred = bool(busy) or (missing is None and unsettled)
        return {"PhysicalResourceId": self._request.physical_id, "UpdateDeferred": deferred} | self._precedence.answer

    def is_updated(self) -> Answer:
        """Done when the cluster is InService and as desired; raises when the service took the update back."""
        cluster = self._existing()
        if cluster["ClusterStatus"] == "RollingBack":
            return _waiting("it is RollingBack")
        answer = self._settled(cluster)
        if not answer["IsComplete"]:
            return answer
        change = self._begun(cluster)
        missing = change.missing()
        age = self._hyperpod.now() - self._request.accepted_at
        if missing is None:
            if self._request.goes_back and self._request.deferred and age < LOOK_AGAIN_SECONDS:
                return _waiting("what is taken back may not be seen yet")
            change.forget_added()
            return answer
        if self._request.deferred:
            return _sent(missing, change)
        if age > CONSISTENCY_SECONDS:
            raise RefusedRequestError(why(self._hyperpod, cluster, "accepted the update but did not keep it"))
        return _waiting("it does not show the update yet")

    def delete(self) -> Answer:
        """Delete the cluster if it exists and is this resource's; the properties are not read, they may be old."""
        self._remove(twice=True)
        return {"PhysicalResourceId": self._request.physical_id}

    def is_deleted(self) -> Answer:
        """Done when the cluster is not found; asks for the deletion again where the first call met a busy cluster."""
        status = self._remove(twice=False)
        return _waiting(f"it is {status}") if status else {"IsComplete": True}

    def _adopted(self, name: str) -> dict[str, str] | None:
        """Take over this resource's own cluster of that name; return its tags before, None when the name is not in use.

        It may be from an earlier deployment, whose create failed and was not rolled back, and not be as wanted now.
        """
        existing, tags = self._known(name)
        if existing is None:
            return None
        owner = Owner.named_by(tags)
        if owner == Owner.of(self._request):
            _log.info("cluster %s is this resource's own, from an earlier request", name)
            self._precedence.register(existing["ClusterArn"], tags, {})
            self._change(existing).apply_tags(tags)
            return tags
        whose = f"belongs to {owner.logical_id} of stack {owner.stack_id}" if owner else "was not made by this stack"
        raise RefusedRequestError(
            f"HyperPod cluster {name} exists already and {whose} (status {existing['ClusterStatus']}): "
            "choose another cluster name, or delete that cluster and deploy again"
        )

    def _known(self, name: str) -> tuple[dict[str, Any] | None, dict[str, str]]:
        """Return the cluster of this name with its tags, None where it is not known while the invocation has time.

        Reads lag behind a creation: a cluster that is new, or not known yet, may be the one whose answer was lost.
        """
        while True:
            cluster = self._hyperpod.find(name)
            tags = (self._hyperpod.tags(cluster["ClusterArn"]) if cluster else None) or {}
            lags = cluster is None or (Owner.named_by(tags) is None and self._is_new(cluster))
            if not (lags and self._hyperpod.pause()):
                return cluster, tags

    def _is_new(self, cluster: dict[str, Any]) -> bool:
        age: float = self._hyperpod.now() - cluster["CreationTime"].timestamp()
        return age < CONSISTENCY_SECONDS

    def _change(self, cluster: dict[str, Any]) -> ClusterUpdate:
        return ClusterUpdate(cluster, self._request, self._hyperpod, self._precedence)

    def _begun(self, cluster: dict[str, Any]) -> ClusterUpdate:
        """Return the update that `on_event` began."""
        self._precedence.follow(cluster["ClusterArn"])
        return self._change(cluster)

    def _remove(self, *, twice: bool) -> str:
        """Ask for the deletion of this resource's cluster; returns its state before, "" when it is gone.

        It is gone also when the name is now another's cluster. With `twice`, a cluster that is not found is looked for
        again: a creation that failed a moment ago may not be known yet.
        """
        name = self._request.physical_id
        if not _NAME.fullmatch(name):
            # An id that CloudFormation or the framework made up for a create that never reached the API.
            return ""
        cluster = self._hyperpod.find(name)
        if cluster is None and twice:
            self._hyperpod.sleep(LOOK_AGAIN_SECONDS)
            cluster = self._hyperpod.find(name)
        if cluster is None:
            return ""
        state = state_of(cluster)
        if cluster["ClusterStatus"] == "Deleting":
            return state
        tags = self._hyperpod.tags(cluster["ClusterArn"])
        owner = Owner.named_by(tags or {})
        if tags is None or (owner is None and self._is_new(cluster)):
            # It went between the two calls, or is too new for ListTags: the next look tells.
            return state
        if owner is None:
            raise no_owner(self._request)
        if owner != Owner.of(self._request):
            _log.warning("cluster %s belongs to %s; it stays", name, owner)
            return ""
        self._hyperpod.delete(cluster["ClusterArn"])
        return state

    def _existing(self) -> dict[str, Any]:
        cluster = self._hyperpod.find(self._request.physical_id)
        if cluster is None:
            raise gone(self._request)
        return cluster

    def _settled(self, cluster: dict[str, Any]) -> Answer:
        status = cluster["ClusterStatus"]
        if status in _FAILED:
            raise RefusedRequestError(why(self._hyperpod, cluster, f"is {status}"))
        if status != "InService":
            return _waiting(f"it is {status}")
        data = {"ClusterArn": cluster["ClusterArn"], "ClusterName": cluster["ClusterName"]}
        return {"IsComplete": True, "Data": data}


def _sent(missing: dict[str, Any], change: ClusterUpdate) -> Answer:
    """Send the update that `on_event` could not send, or need not have known of."""
    change.own_tags()
    return _waiting(change.send(missing) or "the update was sent")


def _waiting(why: str) -> Answer:
    return {"IsComplete": False, "Waiting": why}
