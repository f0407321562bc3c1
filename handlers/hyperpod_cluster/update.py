"""Update a live cluster: find what is missing, decide whether it may be sent now, and keep the tags."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from .changes import group_names, live_groups, raised_counts, surplus_groups, update_request, with_counts
from .errors import RefusedRequestError, code
from .ownership import ADDED_TAG, Owner, added_groups, note, noted_by
from .precedence import Precedence
from .properties import create_request
from .request import Request
from .service import HyperPod

Fields = dict[str, Any]


class ClusterUpdate:
    """Brings one cluster, as DescribeCluster showed it, to the state that one request asks for."""

    def __init__(self, cluster: Fields, request: Request, hyperpod: HyperPod, precedence: Precedence) -> None:
        self._cluster = cluster
        self._request = request
        self._hyperpod = hyperpod
        self._precedence = precedence
        self._name: str = cluster["ClusterName"]
        self._arn: str = cluster["ClusterArn"]

    @property
    def in_service(self) -> bool:
        """Return whether the cluster accepts updates."""
        return bool(self._cluster["ClusterStatus"] == "InService")

    def own_tags(self) -> dict[str, str]:
        """Return the cluster's tags; raise RefusedRequestError if it is gone or belongs to another resource."""
        tags = self._hyperpod.tags(self._arn)
        if tags is None:
            raise gone(self._request)
        owner = Owner.named_by(tags)
        if owner is None:
            raise no_owner(self._request)
        if owner != Owner.of(self._request):
            raise RefusedRequestError(
                f"HyperPod cluster {self._name} is not this stack's any more, it belongs to {owner.logical_id} of "
                f"stack {owner.stack_id}: destroy this stack and what depends on it, then deploy again"
            )
        return tags

    def register(self, tags: dict[str, str]) -> None:
        """Make this request the newest one, before anything can fail, and note which groups it adds."""
        goes_back = self._precedence.goes_back()
        if goes_back and noted_by(tags) == self._request.id:
            # This is a repeated delivery of a forward update: only forward updates write the note, and the rollback
            # that will read it has not begun yet.
            raise self._precedence.superseded("its stack is rolled back")
        noted = {} if goes_back else self._note(added_groups(tags))
        self._precedence.register(self._arn, tags, noted)

    def _note(self, noted: set[str]) -> dict[str, str]:
        """Return the tag for the groups that a rollback may remove: those that this and earlier updates added.

        An update can follow a failed one that was not rolled back. A group that is gone is dropped from the note: a
        later group of that name is somebody else's. A group whose removal this update confirms stays in the note:
        this update may be refused.
        """
        wanted, present = group_names(self._request.properties), live_groups(self._cluster)
        added = (noted & present) | (wanted - present)
        return note(self._request, added) if added or noted else {}

    def forget_added(self) -> None:
        """Remove the note of added groups after a rollback: a later group of that name is not the update's."""
        if not self._precedence.goes_back():
            return
        tags = self._hyperpod.tags(self._arn) or {}
        if ADDED_TAG in tags:
            self._precedence.verify(tags)
            self._hyperpod.remove_tags(self._arn, [ADDED_TAG])

    def missing(self) -> Fields | None:
        """Return the UpdateCluster request that the cluster still needs; None if it is as desired."""
        desired = create_request(self._request.properties, self._hyperpod.model)
        removable = self._removable(desired)
        desired = with_counts(desired, self._kept_counts(desired))
        return update_request(desired, self._cluster, self._request.old_properties, removable)

    def send(self, wanted: Fields) -> str:
        """Send the update; return why the cluster cannot accept it now, or "" if it was accepted."""
        if self._cluster["ClusterStatus"] in {"Failed", "Deleting"}:
            raise RefusedRequestError(
                f"HyperPod cluster {self._name} is {self._cluster['ClusterStatus']} and takes no update: "
                "destroy this stack and what depends on it, then deploy again"
            )
        checked = self._in_deep_checks()
        if checked:
            # Refuse a forward update: that costs nothing. A rollback must not fail, so it waits.
            if self._precedence.goes_back():
                return checked
            raise RefusedRequestError(
                f"HyperPod cluster {self._name} takes no update while {checked}: wait until they have passed "
                "(ops wait), then deploy again"
            )
        try:
            self._hyperpod.update(wanted)
        except ClientError as error:
            if code(error) != "ConflictException":
                raise
            return f"it takes no update now: {error.response['Error'].get('Message', 'ConflictException')}"
        return ""

    def apply_tags(self, live: dict[str, str]) -> None:
        """Add the wanted tags to the cluster, and remove the tags that were given before and no longer are.

        Tags that the request changes are written whatever `live` shows: ListTags may lag behind an earlier update.
        """
        wanted = wanted_tags(create_request(self._request.properties, self._hyperpod.model), self._request)
        before = _given_tags(self._request.old_properties)
        changed = self._request.type == "Update" and before | Owner.of(self._request).tags != wanted
        if changed or any(live.get(key) != value for key, value in wanted.items()):
            self._hyperpod.add_tags(self._arn, wanted)
        if removed := sorted(before.keys() - wanted.keys()):
            self._hyperpod.remove_tags(self._arn, removed)

    def _removable(self, desired: Fields) -> set[str]:
        """Return the live, undesired groups that may be removed with their nodes.

        A forward update may remove the groups that the template confirms; it raises RefusedRequestError if there are
        others. A rollback may also remove the groups that the failed updates added. It keeps all others, because
        nobody can confirm a removal during a rollback.
        """
        surplus = surplus_groups(desired, self._cluster)
        unconfirmed = surplus - self._request.confirmed
        if not unconfirmed:
            return surplus
        if self._precedence.goes_back():
            return surplus & (self._request.confirmed | added_groups(self._hyperpod.tags(self._arn) or {}))
        names = ", ".join(sorted(unconfirmed))
        raise RefusedRequestError(
            f"Instance group {names} of HyperPod cluster {self._name} would be removed with its nodes: "
            "list it under hyperpod.confirm_group_removal in the environment's file, or keep it in instance_groups"
        )

    def _kept_counts(self, desired: Fields) -> dict[str, int]:
        """Return the counts that were raised outside the stack, by group: a rollback keeps them (ADR 34).

        Raises RefusedRequestError in a forward update if there are any.
        """
        raised = raised_counts(desired, self._cluster, self._request.old_properties)
        if raised and not self._precedence.goes_back():
            name, count = min(raised.items())
            raise RefusedRequestError(
                f"Instance group {name} of HyperPod cluster {self._name} has {count} instances, raised outside this "
                f"stack, and the update would remove nodes: write count: {count} into the environment's file, or lower "
                "the group with `ops scale`; then deploy again"
            )
        return raised

    def _in_deep_checks(self) -> str:
        """Describe how many nodes of which groups are in deep health checks; return "" if none are."""
        nodes = self._hyperpod.nodes(self._name)
        checked = [node for node in nodes if node["InstanceStatus"]["Status"] == "DeepHealthCheckInProgress"]
        groups = ", ".join(sorted({node["InstanceGroupName"] for node in checked}))
        return f"{len(checked)} of its nodes are in deep health checks ({groups})" if checked else ""


def wanted_tags(desired: Fields, request: Request) -> dict[str, str]:
    """Return the tags that the cluster must have; the owner's tags override those of the template."""
    return {tag["Key"]: tag["Value"] for tag in desired.get("Tags", [])} | Owner.of(request).tags


def _given_tags(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags in a template's properties; those of an older version can have any shape."""
    tags = properties.get("Tags")
    known = [tag for tag in tags if isinstance(tag, Mapping)] if isinstance(tags, list) else []
    return {tag["Key"]: tag.get("Value") for tag in known if isinstance(tag.get("Key"), str)}


def gone(request: Request) -> RefusedRequestError:
    """Return the error for an update whose cluster was deleted by somebody else."""
    return RefusedRequestError(
        f"HyperPod cluster {request.physical_id} does not exist any more: "
        "destroy this stack and what depends on it, then deploy again"
    )


def replaced(request: Request) -> RefusedRequestError:
    """Return the error for an update whose cluster was deleted, and whose name another cluster has now."""
    return RefusedRequestError(
        f"HyperPod cluster {request.physical_id} is gone: it was deleted after it had accepted the update, and another "
        "one has its name now. Deploy again if that one is yours; otherwise destroy this stack and what depends on it"
    )


def no_owner(request: Request) -> RefusedRequestError:
    """Return the error for a cluster whose tags name no stack."""
    return RefusedRequestError(
        f"HyperPod cluster {request.physical_id} carries no tag that names its stack, so it is left alone: give it "
        f"the tags of this stack, or delete it by hand; then try again\nTags of this stack: {Owner.of(request).tags}"
    )
