"""Update a live cluster: find what is missing, decide whether it may be sent now, and keep the tags."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from botocore.exceptions import ClientError

from .changes import (
    autoscaled,
    counts,
    group_names,
    live_groups,
    raised_counts,
    surplus_groups,
    update_request,
    with_counts,
)
from .errors import RefusedRequestError, code
from .ownership import ADDED_TAG, OwningResource, added_groups, note
from .precedence import Precedence
from .properties import create_request
from .record import BEFORE_TAG, Entry, Record, sleeping_tag
from .request import CustomResourceRequest
from .service import RECHECK_SECONDS, HyperPodClient

Fields = dict[str, Any]
_CONFIRM = "list it under hyperpod.confirm_group_removal in the environment's file"
_SPENT = "its confirmation was for an earlier deployment, so remove the group by hand"
_log = logging.getLogger(__name__)


class ClusterUpdate:
    """Brings one cluster, as DescribeCluster showed it, to the state that one request asks for."""

    def __init__(
        self, cluster: Fields, request: CustomResourceRequest, hyperpod: HyperPodClient, precedence: Precedence
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._hyperpod = hyperpod
        self._precedence = precedence
        self._name: str = cluster["ClusterName"]
        self._arn: str = cluster["ClusterArn"]
        self._tags: dict[str, str] | None = None

    @property
    def in_service(self) -> bool:
        """Return whether the cluster accepts updates."""
        return bool(self._cluster["ClusterStatus"] == "InService")

    def own_tags(self) -> dict[str, str]:
        """Return the cluster's tags; raise RefusedRequestError if it is gone or belongs to another resource."""
        tags = self._hyperpod.tags(self._arn)
        if tags is None:
            raise gone(self._request)
        owner = OwningResource.named_by(tags)
        if owner is None:
            raise no_owner(self._request)
        if owner != OwningResource.of(self._request):
            raise RefusedRequestError(
                f"HyperPod cluster {self._name} is not this stack's any more, it belongs to {owner.logical_id} of "
                f"stack {owner.stack_id}: destroy this stack and what depends on it, then deploy again"
            )
        return tags

    def register(self, tags: dict[str, str]) -> None:
        """Make this request the newest one, before anything can fail, and record what it found."""
        record = self._precedence.record(tags)
        if self._request.type == "Create":
            written = record.after_creation(self._request)
        elif self._precedence.goes_back():
            written = record.after_rollback(self._request)
        else:
            live, old = counts(self._cluster), counts(self._request.old_properties)
            written = record.after_update(self._request, live, old, changes=self._has_changes())
            written |= self._note(added_groups(tags))
        written |= sleeping_tag(self._request.sleeping, counts(self._request.properties), tags)
        self._tags = tags | self._precedence.register(self._arn, tags, written)

    def _has_changes(self) -> bool:
        """Return whether this update will change the cluster, unless it is superseded or refused."""
        try:
            return not self.in_service or self.missing() is not None
        except RefusedRequestError:
            return False

    def _note(self, noted: Mapping[str, int]) -> dict[str, str]:
        """Return the tag for the groups that a rollback may remove: those that this and earlier updates added.

        An update can follow a failed one that was not rolled back. A group that is gone is dropped from the note: a
        later group of that name is somebody else's. A group whose removal this update confirms stays in the note:
        this update may be refused.
        """
        wanted, present = counts(self._request.properties), live_groups(self._cluster)
        added = (noted.keys() & present) | (wanted.keys() - present)
        given = {name: max(noted.get(name, 0), wanted.get(name, 0)) for name in added}
        return note(self._request, given) if added or noted else {}

    def taken_back(self, age: float) -> bool:
        """Return whether a rollback that sees nothing to take back, `age` seconds after its start, has taken it back.

        Reads can lag behind the update that it takes back, and behind the record of that update.
        """
        found = self._found()
        return age > RECHECK_SECONDS or (found is not None and not found.changes)

    def forget(self) -> None:
        """Remove what a completed rollback has read: a later group of a noted name is not the update's."""
        if not self._precedence.goes_back():
            return
        tags = self._hyperpod.tags(self._arn) or {}
        if left := sorted({ADDED_TAG, BEFORE_TAG} & tags.keys()):
            self._precedence.verify(tags)
            self._hyperpod.remove_tags(self._arn, left)

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
        changed = self._request.type == "Update" and before | OwningResource.of(self._request).tags != wanted
        if changed or any(live.get(key) != value for key, value in wanted.items()):
            self._hyperpod.add_tags(self._arn, wanted)
        if removed := sorted(before.keys() - wanted.keys()):
            self._hyperpod.remove_tags(self._arn, removed)

    def _removable(self, desired: Fields) -> set[str]:
        """Return the live, undesired groups that may be removed with their nodes.

        A forward update may remove the groups that the template confirms; it raises RefusedRequestError if there are
        others. A confirmation counts once: one that the previous template gave, too, was for a group that is gone.
        A rollback may remove the groups that the failed updates added, if their record shows that it takes them back
        and nobody has raised their counts since. It keeps all others, because nobody can confirm a removal during a
        rollback.
        """
        surplus = surplus_groups(desired, self._cluster)
        if self._precedence.goes_back():
            live = counts(self._cluster)
            added = added_groups(self._read_tags()) if surplus and self._found() else {}
            removable = {name for name in surplus & added.keys() if live.get(name, 0) <= added[name]}
            self._tell_kept(surplus - removable)
            return removable
        spent = self._request.confirmed_before - group_names(self._request.old_properties)
        unconfirmed, advice = surplus - self._request.confirmed, _CONFIRM
        if not unconfirmed:
            unconfirmed, advice = surplus & spent, _SPENT
        if unconfirmed:
            raise RefusedRequestError(
                f"Instance group {', '.join(sorted(unconfirmed))} of HyperPod cluster {self._name} would be removed "
                f"with its nodes: {advice}, or keep it in instance_groups"
            )
        return surplus

    def _kept_counts(self, desired: Fields) -> dict[str, int]:
        """Return the live counts, by group, that take the place of the desired ones.

        A sleeping group keeps a count within its range, which GroupCounts may change at any time. For all others: a
        rollback keeps the counts that were raised outside the stack (ADR 34). It lowers a count only if it is the one
        that its update gave, and only to what that update found (ADR 85). Where Karpenter scales the groups, it decides
        about all counts except those that the template changes. Raises RefusedRequestError in a forward update that
        would lower a raised count.
        """
        previous = self._request.old_properties
        wanted, live, deployed = counts(desired), counts(self._cluster), counts(previous)
        sleeping = {
            name: live[name]
            for name, least in self._request.sleeping.items()
            if name in wanted and name in live and least <= live[name] <= wanted[name]
        }
        more = {name: live[name] for name in wanted.keys() & live.keys() if live[name] > wanted[name]}
        raised = raised_counts(desired, self._cluster, previous)
        forward = not self._precedence.goes_back()
        if autoscaled(desired, self._cluster, previous):
            same = {name for name in wanted.keys() & live.keys() if wanted[name] == deployed.get(name)}
            return sleeping | {name: live[name] for name in same | (raised if forward else more).keys()}
        if forward:
            if raised:
                name, count = min(raised.items())
                raise RefusedRequestError(
                    f"Instance group {name} of HyperPod cluster {self._name} has {count} instances, raised outside "
                    f"this stack, and the update would remove nodes: write count: {count} into the environment's file, "
                    "or lower the group with `ops scale`; then deploy again"
                )
            return sleeping
        found = self._found() if more else None
        if found and found.changes:
            given = {name for name, count in more.items() if count == deployed.get(name)}
            more |= {name: min(more[name], found.count(name)) for name in given}
        kept = {name: count for name, count in more.items() if count > wanted[name]}
        self._tell_kept(kept)
        return sleeping | kept

    def _found(self) -> Entry | None:
        return Record.read(self._read_tags()).found(self._request)

    def _read_tags(self) -> dict[str, str]:
        if self._tags is None:
            self._tags = self._hyperpod.tags(self._arn) or {}
        return self._tags

    def _tell_kept(self, groups: Collection[str]) -> None:
        if groups:
            why = "they were made or raised outside this stack" if self._found() else "the record is missing"
            _log.warning("this rollback removes no node of %s: %s", ", ".join(sorted(groups)), why)

    def _in_deep_checks(self) -> str:
        """Describe how many nodes of which groups are in deep health checks; return "" if none are."""
        nodes = self._hyperpod.nodes(self._name)
        checked = [node for node in nodes if node["InstanceStatus"]["Status"] == "DeepHealthCheckInProgress"]
        groups = ", ".join(sorted({node["InstanceGroupName"] for node in checked}))
        return f"{len(checked)} of its nodes are in deep health checks ({groups})" if checked else ""


def wanted_tags(desired: Fields, request: CustomResourceRequest) -> dict[str, str]:
    """Return the tags that the cluster must have; the owner's tags override those of the template."""
    return {tag["Key"]: tag["Value"] for tag in desired.get("Tags", [])} | OwningResource.of(request).tags


def _given_tags(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags in a template's properties; those of an older version can have any shape."""
    tags = properties.get("Tags")
    known = [tag for tag in tags if isinstance(tag, Mapping)] if isinstance(tags, list) else []
    return {tag["Key"]: tag.get("Value") for tag in known if isinstance(tag.get("Key"), str)}


def gone(request: CustomResourceRequest) -> RefusedRequestError:
    """Return the error for an update whose cluster was deleted by somebody else."""
    return RefusedRequestError(
        f"HyperPod cluster {request.physical_id} does not exist any more: "
        "destroy this stack and what depends on it, then deploy again"
    )


def replaced(request: CustomResourceRequest) -> RefusedRequestError:
    """Return the error for an update whose cluster was deleted, and whose name another cluster has now."""
    return RefusedRequestError(
        f"HyperPod cluster {request.physical_id} is gone: it was deleted after it had accepted the update, and another "
        "one has its name now. Deploy again if that one is yours; otherwise destroy this stack and what depends on it"
    )


def no_owner(request: CustomResourceRequest) -> RefusedRequestError:
    """Return the error for a cluster whose tags name no stack."""
    tags = OwningResource.of(request).tags
    return RefusedRequestError(
        f"HyperPod cluster {request.physical_id} carries no tag that names its stack, so it is left alone: give it "
        f"the tags of this stack, or delete it by hand; then try again\nTags of this stack: {tags}"
    )
