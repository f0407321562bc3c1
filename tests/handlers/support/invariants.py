"""Check what must hold after every step of a sequence, whatever the answers were."""

from embedded_account.hyperpod.model import ClusterStatus, SimulatedGroup
from handlers.hyperpod_cluster import index
from handlers.hyperpod_cluster.request import SLEEPING
from tests.handlers.support.cloudformation import OTHER_STACK
from tests.handlers.support.engine import Deployments
from tests.handlers.support.judging import NAME, Deeds, Judge

UPDATABLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
FINAL = {"DELETE_COMPLETE", "ROLLBACK_COMPLETE"}


class Invariants:
    """Checks the invariants; raises AssertionError.

    `foreign` holds the ARNs of others' clusters, by name. `made_by_hand` holds the groups that somebody created in the
    stack's own cluster, and `raised_by_hand` the counts that somebody raised in it.
    """

    def __init__(self, stacks: Deployments, judge: Judge, deeds: Deeds) -> None:
        self._stacks = stacks
        self._judge = judge
        self._deeds = deeds
        self._seen_requests = 0
        self._consented: set[str] = set()
        self._protected = ""
        self.foreign: dict[str, str] = {}
        self.made_by_hand: dict[str, SimulatedGroup] = {}
        self.raised_by_hand: dict[str, int] = {}

    def check(self) -> None:
        """Check all invariants."""
        stack, status, deeds = self._stacks.stack, self._stacks.status, self._deeds
        assert stack is not None
        calm = not (
            deeds.errors or deeds.killed or deeds.removed_by_hand or deeds.drift or deeds.by_hand or deeds.lagging
        )
        if calm and status.endswith("ROLLBACK_FAILED"):
            # The stack's own reason only lists its resources.
            told = [reason for reason in self._stacks.reasons() if not reason.startswith("The following resource")]
            reverted = deeds.taken_back and "did not keep it" in told[-1]
            # A quota that was lowered during the update can leave no room for the nodes that the rollback needs again.
            no_room = deeds.quota and "ResourceLimitExceeded" in told[-1]
            expected = reverted or no_room or "has not ended after" in told[-1]
            assert expected, "a rollback failed, and nothing was in its way"
        self._believed()
        assert status not in FINAL or not self._judge.owned_by(stack.stack_id), "a cluster that no stack owns"
        self._theirs(stack.stack_id)
        self._consent()

    def groups(self, name: str = NAME) -> dict[str, SimulatedGroup]:
        """Return the groups of the stack's cluster that are not being deleted."""
        cluster = None if name in self.foreign else self._judge.clusters.get(name)
        return {name: group for name, group in cluster.groups.items() if not group.deleting} if cluster else {}

    def in_service(self) -> bool:
        """Return whether the stack's cluster accepts changes."""
        cluster = self._judge.clusters.get(NAME)
        return cluster is not None and cluster.status is ClusterStatus.IN_SERVICE and NAME not in self.foreign

    def protect(self, made: str = "", raised_to: int = 0) -> None:
        """Protect a group made by hand, or counts raised by hand: from now on only consent may undo them."""
        groups, self._protected = self.groups(), self._judge.clusters[NAME].arn
        if made in groups:
            self.made_by_hand[made] = groups[made]
        raised = {name for name, each in groups.items() if each.target == raised_to}
        self.raised_by_hand |= dict.fromkeys(raised, raised_to)
        self._consented -= {made} | raised

    def _theirs(self, stack_id: str) -> None:
        """Check that others' clusters are untouched, and that every cluster has an owner."""
        for name, arn in self.foreign.items():
            cluster = self._judge.clusters.get(name)
            assert cluster is not None, f"the foreign cluster {name} is gone"
            assert cluster.arn == arn
            assert cluster.status is not ClusterStatus.DELETING, f"the foreign cluster {name} is being deleted"
        known = self._judge.owned_by(stack_id) + self._judge.owned_by(OTHER_STACK)
        assert not self._judge.clusters.keys() - {*self.foreign, *known}

    def _consent(self) -> None:
        """Check that what somebody made by hand exists until a template confirms its removal."""
        requests = self._stacks.requests
        # A new stack starts a new list of requests.
        new = requests[self._seen_requests :] if self._seen_requests <= len(requests) else requests
        self._seen_requests = len(requests)
        for request in new:
            if request["ResourceType"] != index.CLUSTER or "ROLLBACK" in self._stacks.status_at(request):
                continue
            old = request.get("OldResourceProperties", {})
            before = {
                group["InstanceGroupName"]: int(group["InstanceCount"]) for group in old.get("InstanceGroups", [])
            }
            # A confirmation counts once, unless it came before the removal.
            confirmed = {*request.get("ResourceProperties", {}).get("ConfirmGroupRemoval", [])}
            self._consented |= confirmed - ({*old.get("ConfirmGroupRemoval", [])} - before.keys())
            if request["RequestType"] == "Create":
                # It adopts a cluster that an earlier one left behind, and has no OldResourceProperties to compare with.
                self._consented |= self.raised_by_hand.keys()
            # The template has taken the count over: it may lower it now.
            taken_over = {name for name, count in self.raised_by_hand.items() if before.get(name, 0) >= count}
            self._consented |= taken_over
        if self._deeds.adopted:
            self._consented |= self.raised_by_hand.keys()
            self._deeds.adopted = False
        cluster = self._judge.clusters.get(NAME)
        # An update begins by deleting what a failed creation left behind, and can have created another cluster since.
        goes = cluster is None or cluster.status is ClusterStatus.DELETING or cluster.arn != self._protected
        if goes or NAME in self.foreign:
            self.made_by_hand.clear()
            self.raised_by_hand.clear()
            return
        groups = self.groups()
        for name, made in self.made_by_hand.items():
            assert name in self._consented or groups.get(name) is made, f"group {name}, made by hand, is gone"
        for name, count in self.raised_by_hand.items():
            kept = name in groups and groups[name].target >= count
            assert name in self._consented or kept, f"group {name}, raised by hand to {count}, has fewer"

    def _believed(self) -> None:
        """Check that an InService cluster has the groups and counts in the stack's record."""
        if self._stacks.status not in UPDATABLE or self._deeds.removed_by_hand:
            return
        if not self._stacks.has_cluster:
            return
        assert self._stacks.stack is not None
        resource = self._stacks.stack.resources["Cluster"]
        # The engine does not send a failed update again when the template stays as it is.
        if resource.status == "UPDATE_FAILED":
            return
        properties = resource.properties
        cluster = self._judge.clusters.get(properties["ClusterName"])
        assert cluster is not None, "the stack's cluster is gone"
        assert cluster.status is not ClusterStatus.DELETING, "the stack's cluster is being deleted"
        if self._deeds.drift or self._deeds.autoscaled or "InstanceCount" in self._deeds.unknown_fields:
            return
        groups = properties["InstanceGroups"]
        if cluster.status is ClusterStatus.IN_SERVICE:
            wanted = {group["InstanceGroupName"]: group["InstanceCount"] for group in groups}
            by_hand = {*self._deeds.by_hand - wanted.keys(), *self.raised_by_hand}
            counts = {name: group.target for name, group in self.groups(cluster.name).items() if name not in by_hand}
            believed = {name: count for name, count in wanted.items() if name not in by_hand}
            for name, least in properties.get(SLEEPING, {}).items():
                if name in believed and name in counts and int(least) <= counts[name] <= believed[name]:
                    believed[name] = counts[name]
            assert counts == believed, f"the stack believes in {believed}, and there are {counts}"
