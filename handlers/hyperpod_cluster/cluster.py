"""Create, update and delete Custom::HyperPodCluster. Its physical id is the cluster's name.

Create makes one CreateCluster call, and nothing after that call may raise: when `on_event` of a Create fails, the
framework forgets the physical id and never sends the Delete (aws/aws-cdk#5525). ClusterTeardown removes a cluster that
is lost this way. "Created" means that the service accepted the cluster and that it is InService. The handler does not
wait for nodes, deep health checks or capacity: under continuous provisioning nodes come and go without a request, and a
wait longer than CloudFormation's hour would delete a good cluster. Without continuous provisioning, a cluster is
Creating until all its nodes run: if that takes longer than PATIENCE_SECONDS, it is left to `ops wait`.

An answer that is not complete gives its reason in `Waiting`, which only `index` reads.
"""

import logging
import re
from typing import Any

from botocore.exceptions import ClientError

from .changes import counts
from .errors import RefusedRequestError, code
from .failure import state_of, why
from .ownership import OwningResource
from .precedence import Precedence, created_by, requests_tag
from .properties import create_request
from .record import Record, sleeping_tag
from .request import CustomResourceRequest
from .service import CONSISTENCY_SECONDS, HyperPodClient
from .update import ClusterUpdate, gone, no_owner, replaced, wanted_tags

PATIENCE_SECONDS = 3000
"""How long a request may take after `on_event`.

CloudFormation's 3,600 seconds begin before `on_event`, and the last poll can take its function's whole time limit. The
framework's own time-out gives no reason but "Operation timed out".
"""

# CreateCluster, ClusterName.
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_FAILED = frozenset({"Failed", "RollingBack"})
_log = logging.getLogger(__name__)

Answer = dict[str, Any]


class ClusterHandler:
    """Handles one invocation for one request; `Precedence` guards every call that changes the cluster."""

    def __init__(self, request: CustomResourceRequest, hyperpod: HyperPodClient) -> None:
        self._request = request
        self._hyperpod = hyperpod
        self._deleted_arn = ""
        self._precedence = Precedence(request, hyperpod)
        if request.type != "Delete":
            # A Delete is verified against the cluster that it finds.
            hyperpod.before_change = self._precedence.verify

    def create(self) -> Answer:
        """Create the cluster, or adopt the one that an earlier delivery created for the same resource."""
        wanted = create_request(self._request.properties, self._hyperpod.model)
        tags = wanted_tags(wanted, self._request) | requests_tag(self._request.id)
        tags |= Record().after_creation(self._request)
        tags |= sleeping_tag(self._request.sleeping, counts(wanted), {})
        wanted["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
        name = str(wanted["ClusterName"])
        differs = False
        try:
            self._hyperpod.create(wanted)
        except ClientError as error:
            tags_before = self._adopted(name) if code(error) == "ResourceInUse" else None
            if tags_before is None:
                raise
            # A cluster that this request created matched its properties; any difference was made by hand since.
            differs = not created_by(self._request, tags_before)
        return {"PhysicalResourceId": name, "UpdateDeferred": differs} | self._precedence.answer

    def is_created(self) -> Answer:
        """Return whether the cluster is InService and, if adopted, as desired.

        Raises RefusedRequestError when the cluster failed or was deleted.
        """
        name = self._request.physical_id
        cluster = self._hyperpod.find(name)
        if cluster is None:
            if self._hyperpod.now() - self._request.accepted_at < CONSISTENCY_SECONDS:
                return _waiting("it is not known to DescribeCluster yet")
            raise RefusedRequestError(f"HyperPod cluster {name} is gone: it was deleted while it was being created")
        if cluster["ClusterStatus"] == "Deleting":
            raise RefusedRequestError(f"HyperPod cluster {name} is being deleted by somebody else")
        answer = self._settled(cluster)
        if self._takes_longer(cluster):
            _log.warning("%s: the cluster is still being created; `ops wait` shows the rest", name)
            return _complete(cluster)
        if not (self._request.deferred and answer["IsComplete"]):
            return answer
        change = self._begun(cluster)
        missing = change.missing()
        return answer if missing is None else self._sent(missing, change)

    def update(self) -> Answer:
        """Send one UpdateCluster if the live cluster differs; leave it to `is_updated` while the cluster is busy."""
        cluster = self._existing()
        change = self._change(cluster)
        tags = change.own_tags()
        change.register(tags)
        missing = change.missing()
        busy = "" if missing is None else change.send(missing)
        change.apply_tags(tags)
        # `is_updated` must compare again: an update that is still running can change a cluster that is as desired now,
        # and the update that a rollback reverts may be too new to be visible.
        unsettled = not change.in_service or self._precedence.goes_back()
        deferred = bool(busy) or (missing is None and unsettled)
        notices = {"UpdateDeferred": deferred, "UpdatedArn": cluster["ClusterArn"]}
        return {"PhysicalResourceId": self._request.physical_id} | notices | self._precedence.answer

    def is_updated(self) -> Answer:
        """Return whether the cluster is InService and as desired.

        Raises RefusedRequestError when the service reverted the update, or the updated cluster is gone.
        """
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
            if self._request.goes_back and self._request.deferred and not change.taken_back(age):
                return _waiting("the update that is rolled back may not be visible yet")
            change.forget()
            return answer
        if self._request.deferred:
            return self._sent(missing, change)
        if self._request.updated_arn not in ("", cluster["ClusterArn"]):
            raise replaced(self._request)
        if age > CONSISTENCY_SECONDS:
            raise RefusedRequestError(why(self._hyperpod, cluster, "accepted the update but did not keep it"))
        return _waiting("it does not show the update yet")

    def delete(self) -> Answer:
        """Delete the cluster if it exists and belongs to this resource.

        The properties are not read: they can be of an older version of the template.
        """
        self._remove()
        return {"PhysicalResourceId": self._request.physical_id, "UpdatedArn": self._deleted_arn}

    def is_deleted(self) -> Answer:
        """Return whether the cluster is gone; delete it now if it was busy, or not visible, before."""
        state = self._remove()
        age = self._hyperpod.now() - self._request.accepted_at
        if state is None and not self._request.updated_arn and age < CONSISTENCY_SECONDS:
            return _waiting("a cluster that was just created may not be visible yet")
        return _waiting(f"it is {state}") if state else {"IsComplete": True}

    def _adopted(self, name: str) -> dict[str, str] | None:
        """Adopt this resource's own cluster; return the tags it had, or None if no cluster has that name.

        The cluster can be from a deployment that failed and was not rolled back, and can differ from the properties.
        Raises RefusedRequestError if the cluster belongs to somebody else.
        """
        existing, tags = self._known(name)
        if existing is None:
            return None
        owner = OwningResource.named_by(tags)
        if owner == OwningResource.of(self._request):
            _log.info("adopting cluster %s, which an earlier request of this resource created", name)
            change = self._change(existing)
            change.register(tags)
            change.apply_tags(tags)
            return tags
        whose = f"belongs to {owner.logical_id} of stack {owner.stack_id}" if owner else "was not made by this stack"
        raise RefusedRequestError(
            f"HyperPod cluster {name} exists already and {whose} (status {existing['ClusterStatus']}): "
            "choose another cluster name, or delete that cluster and deploy again"
        )

    def _known(self, name: str) -> tuple[dict[str, Any] | None, dict[str, str]]:
        """Return the cluster and its tags; None and no tags if it is not found before the invocation's time ends.

        Reads lag behind a creation: CreateCluster may have created this cluster although its answer was lost.
        """
        while True:
            cluster = self._hyperpod.find(name)
            tags = (self._hyperpod.tags(cluster["ClusterArn"]) if cluster else None) or {}
            lags = cluster is None or (OwningResource.named_by(tags) is None and self._is_new(cluster))
            if not (lags and self._hyperpod.pause()):
                return cluster, tags

    def _is_new(self, cluster: dict[str, Any]) -> bool:
        age: float = self._hyperpod.now() - cluster["CreationTime"].timestamp()
        return age < CONSISTENCY_SECONDS

    def _change(self, cluster: dict[str, Any]) -> ClusterUpdate:
        return ClusterUpdate(cluster, self._request, self._hyperpod, self._precedence)

    def _begun(self, cluster: dict[str, Any]) -> ClusterUpdate:
        """Return the update that `on_event` registered."""
        self._precedence.follow(cluster["ClusterArn"])
        return self._change(cluster)

    def _sent(self, missing: dict[str, Any], change: ClusterUpdate) -> Answer:
        """Send the update that `on_event` could not send, or could not see the need for."""
        self._precedence.verify(change.own_tags())
        return _waiting(change.send(missing) or "the update was sent")

    def _takes_longer(self, cluster: dict[str, Any]) -> bool:
        """Return whether the service still creates nodes, without which the cluster is not InService, at the limit."""
        all_at_once = cluster["ClusterStatus"] == "Creating" and cluster.get("NodeProvisioningMode") != "Continuous"
        return all_at_once and self._hyperpod.now() - self._request.accepted_at > PATIENCE_SECONDS

    def _remove(self) -> str | None:
        """Delete this resource's cluster; return the state it was in, "" if it is not ours, None if it is not found.

        Once it was found, only a cluster with its ARN is deleted: the stack may have another one of its name.
        """
        name = self._request.physical_id
        if not _NAME.fullmatch(name):
            # CloudFormation or the framework generated this id for a Create that never reached the API.
            return ""
        cluster = self._hyperpod.find(self._request.updated_arn or name)
        if cluster is None:
            return None
        self._deleted_arn = cluster["ClusterArn"]
        state = state_of(cluster)
        goes = cluster["ClusterStatus"] == "Deleting"
        tags = None if goes else self._hyperpod.tags(cluster["ClusterArn"])
        owner = OwningResource.named_by(tags or {})
        if tags is None or (owner is None and self._is_new(cluster)):
            # It is being deleted, was deleted between the two calls, or is too new for ListTags.
            return state
        if owner is None:
            raise no_owner(self._request)
        if owner != OwningResource.of(self._request):
            _log.warning("cluster %s belongs to %s; not deleting it", name, owner)
            return ""
        self._precedence.verify_deletion(tags)
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
        return _complete(cluster)


def _complete(cluster: dict[str, Any]) -> Answer:
    data = {"ClusterArn": cluster["ClusterArn"], "ClusterName": cluster["ClusterName"]}
    return {"IsComplete": True, "Data": data}


def _waiting(why: str) -> Answer:
    return {"IsComplete": False, "Waiting": why}
