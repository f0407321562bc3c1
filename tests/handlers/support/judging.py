"""Judge every answer that CloudFormation gets, by the simulator's state and by what was done to it.

A success must be true at that moment; a failure must name a real cause.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.model import ClusterStatus, NodeStatus, SimulatedCluster
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.cluster import PATIENCE_SECONDS
from handlers.hyperpod_cluster.ownership import RESOURCE_TAG, STACK_TAG, OwningResource
from handlers.hyperpod_cluster.request import SLEEPING
from tests.handlers.support.causes import justified, others
from tests.handlers.support.clients import HANDLERS_TAGS
from tests.handlers.support.cloudformation import strings
from tests.handlers.support.framework import Event, Properties, Response

NAME = "ml-cluster"
MOST_UPDATES = 3
"""One, and another for each time that somebody or the service reverts an update meanwhile."""
NAMES = {NAME, "other-name"}
"""What the stack may call its cluster."""


def clusters(bench: HyperPodBench) -> list[str]:
    """Return the names of all clusters."""
    return list(bench.hyperpod.world.clusters)


def live(bench: HyperPodBench) -> dict[str, Any]:
    """Return what a rollback must restore: groups and tags of the only cluster."""
    [cluster] = bench.hyperpod.world.clusters.values()
    groups = [given(group.specification) for group in cluster.groups.values() if not group.deleting]
    tags = {key: value for key, value in cluster.tag_values.items() if key not in HANDLERS_TAGS}
    return {"groups": deepcopy(groups), "tags": tags}


def given(specification: Properties) -> Properties:
    """Return a group's fields without the values that stand for an absent field."""
    said = {key: given(value) if isinstance(value, dict) else value for key, value in specification.items()}
    none = [("MinInstanceCount", 0), ("ImageId", "default")]
    return {key: value for key, value in said.items() if value not in ({}, []) and (key, value) not in none}


@dataclass
class Deeds:
    """What was done to a deployment, as far as it explains failures and drift.

    `errors` are the (call, code) pairs that were made to fail, "*" for any call or code. `drift` says that somebody
    changed more than groups and counts. `raised` are the counts that somebody gave groups, `by_hand` the names of
    groups that somebody created, `went` the clusters that disappeared between two calls. `taken_back` says that the
    service reverted an update that it had accepted. `adopted` says that a Create was delivered again,
    `autoscaled` that Karpenter decides about counts.

    `unknown_fields` are the fields that only earlier templates of a chain of updates without rollback gave, or the
    template before the chain: a request carries its own template and the one before it, and no others.
    """

    errors: set[tuple[str, str]] = field(default_factory=set)
    killed: bool = False
    removed_by_hand: bool = False
    drift: bool = False
    quota: bool = False
    lagging: bool = False
    taken_back: bool = False
    adopted: bool = False
    autoscaled: bool = False
    raised: set[str] = field(default_factory=set)
    by_hand: set[str] = field(default_factory=set)
    went: set[str] = field(default_factory=set)
    unknown_fields: set[str] = field(default_factory=set)

    def explains(self, call: str, code: str) -> bool:
        """Return whether this call was made to fail with this code."""
        return bool({(call, code), ("*", code), (call, "*"), ("*", "*")} & self.errors)

    def explains_count(self, count: str) -> bool:
        """Return whether a group may have so many instances although no request asks for them."""
        return self.autoscaled or count in self.raised or "InstanceCount" in self.unknown_fields


class Judge:
    """Judges answers; raises AssertionError.

    `status` returns the stack's status, `carried_out` counts the calls that the service answered, by request and
    operation.
    """

    def __init__(
        self,
        bench: HyperPodBench,
        deeds: Deeds,
        status: Callable[[], str],
        carried_out: Mapping[tuple[str, str], int],
    ) -> None:
        self._bench = bench
        self._deeds = deeds
        self._status = status
        self._carried_out = carried_out
        self.succeeded = 0
        self.failed = 0

    def __call__(self, event: Event, response: Response) -> None:
        assert self.updates(event) <= MOST_UPDATES, "the same update is sent again and again"
        if response.succeeded:
            self.succeeded += 1
            self._success(event, response)
        else:
            self.failed += 1
            assert justified(self, event, response.reason), f"not the cause: {response.reason}"

    def updates(self, event: Event) -> int:
        """Return how often this request has updated the cluster."""
        return self._carried_out.get((event["RequestId"], "UpdateCluster"), 0)

    def rolls_back(self) -> bool:
        return self._status().endswith("ROLLBACK_IN_PROGRESS")

    def owned_by(self, stack_id: str, logical_id: str = "") -> list[str]:
        """Return the names of the clusters whose tags name this stack and, if given, this resource of it."""
        return [
            cluster.name
            for cluster in self.clusters.values()
            if cluster.tag_values.get(STACK_TAG) == stack_id
            and logical_id in {"", cluster.tag_values.get(RESOURCE_TAG)}
        ]

    @property
    def clusters(self) -> Mapping[str, SimulatedCluster]:
        return self._bench.hyperpod.world.clusters

    # --- successes ---------------------------------------------------------------------------------------

    def _success(self, event: Event, response: Response) -> None:
        kind, verb, stack_id = event["ResourceType"], event["RequestType"], event["StackId"]
        if verb == "Delete":
            unknown = response.physical_id not in NAMES
            logical_id = event["LogicalResourceId"] if kind == index.CLUSTER else ""
            if kind == index.TEARDOWN and self._status() not in {"DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"}:
                return
            assert (kind == index.CLUSTER and unknown) or not self.owned_by(stack_id, logical_id), "it is not deleted"
        elif kind == index.CLUSTER and not (self._deeds.removed_by_hand and response.physical_id not in self.clusters):
            assert response.physical_id == event["ResourceProperties"]["ClusterName"]
            self._as_desired(event, self.clusters[response.physical_id])

    def _as_desired(self, event: Event, cluster: SimulatedCluster) -> None:
        desired, old = event["ResourceProperties"], event.get("OldResourceProperties", {})
        if any(each.until > self._bench.clock.present for each in cluster.outdated):
            # Reads still lag; `Invariants` check the cluster later.
            return
        age = (self._bench.clock.present - cluster.created).total_seconds()
        takes_longer = event["RequestType"] == "Create" and not cluster.continuous and age > PATIENCE_SECONDS
        in_service = cluster.status is ClusterStatus.IN_SERVICE
        assert in_service or (takes_longer and cluster.status is ClusterStatus.CREATING), "the cluster is not InService"
        owner = OwningResource(event["StackId"], event["LogicalResourceId"])
        tags = {tag["Key"]: tag["Value"] for tag in desired.get("Tags", [])} | owner.tags
        gone = {tag["Key"] for tag in old.get("Tags", [])} - tags.keys()
        assert tags.items() <= cluster.tag_values.items(), "tags are missing"
        assert not gone & cluster.tag_values.keys(), "tags that are no longer given are there"
        live = {
            name: strings(given(group.specification)) for name, group in cluster.groups.items() if not group.deleting
        }
        for group in desired["InstanceGroups"]:
            found = live.pop(group["InstanceGroupName"])
            kept = (self.rolls_back() or self._deeds.autoscaled) and self._deeds.explains_count(found["InstanceCount"])
            kept = kept or _in_range(desired, group, found["InstanceCount"])
            wanted = group | ({"InstanceCount": found["InstanceCount"]} if kept else {})
            assert wanted.items() <= found.items(), "a group is not as desired"
            left = found.keys() - group.keys() - self._deeds.unknown_fields
            assert self._deeds.drift or not left, "a field that is no longer given is there"
        # The note of the groups that a rollback may remove is a tag of the cluster: it went with the cluster (ADR 22).
        noteless = self._deeds.removed_by_hand and self.rolls_back()
        # A rollback keeps a group that has grown since the failed update added it.
        grown = {name for name, group in live.items() if group["InstanceCount"] in self._deeds.raised}
        surplus = live.keys() - self._deeds.by_hand - (grown if self.rolls_back() else set())
        assert self._deeds.drift or noteless or not surplus, "there are groups that nobody wants"
        confirmed = set() if self.rolls_back() else {*desired.get("ConfirmGroupRemoval", [])}
        assert not live.keys() & confirmed, "a confirmed removal did not happen"
        recovery = desired.get("NodeRecovery", "Automatic")
        known = not self._deeds.drift and "NodeRecovery" not in self._deeds.unknown_fields
        assert not known or cluster.request.get("NodeRecovery", "Automatic") == recovery
        assert not desired.get("NodeProvisioningMode") or cluster.continuous

    # --- failures ----------------------------------------------------------------------------------------

    def api_error(self, event: Event, call: str, code: str, message: str) -> bool:
        """Return whether an error of the API was injected, or the simulator really has a reason for it."""
        if self._deeds.explains(call, code):
            return True
        if code == "ResourceLimitExceeded":
            return self._deeds.quota
        if code == "ResourceNotFound":
            return self._deeds.removed_by_hand
        if code == "ResourceInUse":
            # The handler adopts its own cluster if it can read it; another owner's may have disappeared since.
            unread = any(failed in {"DescribeCluster", "ListTags", "*"} for failed, _ in self._deeds.errors)
            return others(self, event) or (unread and event["ResourceProperties"]["ClusterName"] in self.clusters)
        natural = {
            "missing one or more required dependencies": bool(self._bench.eks.missing),
            "is already used by the HyperPod cluster": bool(self.clusters),
            "needs NodeProvisioningMode Continuous": "NodeProvisioningMode" not in event["ResourceProperties"],
            "ThreadsPerCore 2 is not valid": True,
            # A group of the same name is still being deleted.
            "cannot be changed. Delete the group": any(
                group.deleting for cluster in self.clusters.values() for group in cluster.groups.values()
            ),
            "does not exist.": self._deeds.removed_by_hand and call != "ListTags",
        }
        return code == "ValidationException" and any(words in message and true for words, true in natural.items())

    def in_its_words(self, reason: str) -> bool:
        """Return whether a reason contains the service's failure message of each of the stack's clusters."""
        text = " ".join(reason.replace("…", "").split())
        return all(each.failure in text for each in self.clusters.values() if each.name in NAMES and not each.outdated)

    def told(self, name: str, message: str) -> bool:
        """Return whether this is the service's own failure message of the cluster."""
        return name in self.clusters and self.clusters[name].failure.startswith(message)

    def checked(self) -> bool:
        """Return whether a node is in deep health checks."""
        nodes = [node for cluster in self.clusters.values() for node in cluster.nodes.values()]
        return any(node.status is NodeStatus.DEEP_HEALTH_CHECK for node in nodes)

    def deleting(self) -> bool:
        """Return whether a cluster is being deleted."""
        return any(cluster.status is ClusterStatus.DELETING for cluster in self.clusters.values())

    @property
    def deeds(self) -> Deeds:
        return self._deeds


def _in_range(desired: Properties, group: Properties, count: str) -> bool:
    """Return whether a sleeping group may have so many instances."""
    least = desired.get(SLEEPING, {}).get(group["InstanceGroupName"])
    return least is not None and int(least) <= int(count) <= int(group["InstanceCount"])
