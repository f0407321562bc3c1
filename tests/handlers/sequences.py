"""A state machine: one stack, one account, and what people, AWS and chance do to them.

Invariants, checked after every step: no cluster that no stack owns; no cluster that is not ours is touched; nodes go
with consent only; no success is told for a state that is not reached; every failure names its cause, in the service's
own words where it has some; no request is carried out again and again; what the stack believes is what there is, also
when a request runs on for which CloudFormation no longer waits. At the end of every sequence what was broken is
repaired, and then the stack must be deletable with nothing left.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from embedded_account.hyperpod import model
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.faults import Faults
from embedded_account.hyperpod.permissions.required import REQUIRED
from handlers.hyperpod_cluster.ownership import RESOURCE_TAG, STACK_TAG
from tests.handlers import steps
from tests.handlers.changing import BY_HAND, edited
from tests.handlers.engine import Deployments
from tests.handlers.framework import NO_RETRIES, Event
from tests.handlers.invariants import OTHER_STACK, UPDATABLE, Invariants
from tests.handlers.judging import NAME, Deeds, Judge
from tests.handlers.mishaps import Mishaps
from tests.handlers.steps import Deploying, Mishap

# Fields of a group whose absence a request can say.
OMITTABLE = ("ImageId", "InstanceStorageConfigs", "KubernetesConfig", "MinInstanceCount")
CALLS = sorted(
    {call for call in REQUIRED if call.startswith(("Create", "Describe", "Update", "Delete", "List", "AddT"))}
)


class Sequences(RuleBasedStateMachine):
    """A sequence; `seen` counts what happened in all of them."""

    bench: HyperPodBench
    seen: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        world = self.bench.hyperpod.world
        # What is left of the sequence before: clusters of others, or anything when it ended in a failure.
        for cluster in world.clusters.values():
            self.bench.background.drop_all(cluster.arn)
        world.clusters.clear()
        world.faults = Faults()
        self.bench.eks.missing = []
        self.bench.journal.clear()
        self.patch = pytest.MonkeyPatch()
        self.deeds = Deeds()
        self.stacks = Deployments(self.bench, self.patch)
        self.judge = Judge(self.bench, self.deeds, lambda: self.stacks.status, self.stacks.framework.carried_out)
        self.stacks.judge = self.judge
        self.stacks.before_request = self.before_request
        self.late: list[Event] = []
        self.must_hold = Invariants(self.stacks, self.judge, self.deeds)
        self.foreign = self.must_hold.foreign
        self.mishaps = Mishaps(self.bench, self.stacks, self.deeds, self.must_hold, self.seen)
        self.attempted: dict[str, Any] = {}
        self.named: set[str] = set()
        self.operator: Any = self.bench.client("sagemaker", config=NO_RETRIES)

    # --- deployments -------------------------------------------------------------------------------------

    @precondition(lambda self: not self.stacks.living)
    @rule(how=steps.deployments)
    def create_stack(self, how: Deploying) -> None:
        # What was on its way to the functions of the stack before has no receiver.
        self.late.clear()
        self.stacks.requests.clear()
        self.deploy(replace(how, guard="Teardown"))
        self.look("create")

    @precondition(lambda self: self.stacks.status in UPDATABLE)
    @rule(how=steps.deployments)
    def update_stack(self, how: Deploying) -> None:
        self.deploy(how)
        self.look("update")

    # Rules are drawn evenly: what matters most is there twice.
    update_stack_too = update_stack

    @precondition(lambda self: self.stacks.status in {"UPDATE_FAILED", "CREATE_FAILED"})
    @rule(how=steps.deployments)
    def update_without_rollback(self, how: Deploying) -> None:
        self.deploy(replace(how, on_failure="DO_NOTHING", guard="Teardown"))
        self.look("update")

    @precondition(lambda self: self.stacks.status in UPDATABLE)
    @rule(chain=st.lists(steps.deployments, min_size=2, max_size=3), mishaps=steps.mishaps)
    def update_in_a_chain(self, chain: list[Deploying], mishaps: list[Mishap]) -> None:
        """Updates without rollback, each after one that failed; then back at once."""
        for how in chain:
            if self.stacks.status in {*UPDATABLE, "UPDATE_FAILED"}:
                self.deploy(replace(how, fails_later=True, on_failure="DO_NOTHING", guard="Teardown"))
                self.look("update")
        if self.stacks.status == "UPDATE_FAILED":
            self.go_back_with(mishaps)

    @precondition(lambda self: self.stacks.status in {"UPDATE_ROLLBACK_FAILED", "UPDATE_FAILED", "CREATE_FAILED"})
    @rule(mishaps=steps.mishaps)
    def go_back(self, mishaps: list[Mishap]) -> None:
        self.go_back_with(mishaps)

    @precondition(lambda self: self.stacks.living)
    @rule(mishaps=steps.mishaps)
    def delete_stack(self, mishaps: list[Mishap]) -> None:
        # A person looks at what failed first.
        self.bench.advance(1)
        with self.mishaps.during(mishaps):
            self.stacks.delete()
        self.look("delete")

    # --- chance ------------------------------------------------------------------------------------------

    @rule(what=st.sampled_from(steps.EVENTS), which=st.integers(0, 99))
    def let_something_happen(self, what: str, which: int) -> None:
        """`which` chooses among calls, codes and requests."""
        if what == steps.CALL_FAILS:
            failing = (CALLS[which % len(CALLS)], ["ThrottlingException", "AccessDeniedException"][which % 2])
            self.deeds.errors.add(failing)
            self.bench.fault(errors=dict([failing]))
        elif what == steps.CRASH:
            self.deeds.killed = True
            self.stacks.crashes = 1 + which % 3
        elif what != steps.LATE:
            self.mishaps.trouble(what)
        elif self.stacks.living and (known := [each for each in self.stacks.requests if self.mishaps.is_known(each)]):
            # Before the next request, once more. A deleted stack has no functions left.
            self.late.append(known[which % len(known)])

    # --- people ------------------------------------------------------------------------------------------

    @rule(minutes=st.sampled_from([1, 10, 30, 240]), repaired=st.booleans())
    def wait(self, minutes: int, *, repaired: bool) -> None:
        if repaired:
            self.mishaps.repair()
        self.bench.advance(minutes)
        if self.stacks.living:
            self.look("wait")

    @initialize(
        state=st.sampled_from(["running"] * 6 + ["nothing"] * 2 + ["name", "name, other stack", "EKS cluster"]),
        keeps_omitted=st.sampled_from([False, False, True]),
    )
    def start(self, state: str, *, keeps_omitted: bool = False) -> None:
        """A deployed stack, or none, or clusters of others that take what the stack will want.

        Whether an update keeps what a group leaves out is documented for few fields.
        """
        if keeps_omitted:
            self.patch.setattr(model, "KEPT_WHEN_OMITTED", (*model.KEPT_WHEN_OMITTED, *OMITTABLE))
        if state == "running":
            self.stacks.deploy(edited(self.bench, ()))
            self.bench.advance(60)
            self.look("start")
        elif state != "nothing":
            self.let_others_be_there(state)

    @precondition(lambda self: self.must_hold.in_service())
    @rule(deed=st.sampled_from(["software", "delete", "raise", "raise", *BY_HAND]))
    def change_it_by_hand(self, deed: str) -> None:
        if deed == "software":
            self.by_hand(self.operator.update_cluster_software)
        elif deed == "delete":
            self.deeds.removed_by_hand = True
            self.by_hand(self.operator.delete_cluster)
        elif deed == "raise":
            self.deeds.raised.add("4")
            self.change_groups_by_hand([group | {"InstanceCount": 4} for group in self.given()])
            self.must_hold.protect(raised_to=4)
        else:
            self.make_a_group_by_hand(deed)

    @precondition(lambda self: self.deeds.removed_by_hand and not self.judge.clusters and self.stacks.living)
    @rule()
    def make_another_of_the_same_name_by_hand(self) -> None:
        self.let_others_be_there("name")

    # --- inside ------------------------------------------------------------------------------------------

    def deploy(self, how: Deploying) -> None:
        properties = edited(self.bench, how.edits)
        self.named = set() if self.stacks.status in UPDATABLE else self.named
        self.named |= {group["InstanceGroupName"] for group in properties["InstanceGroups"]}
        if self.stacks.status in {"CREATE_FAILED", "UPDATE_FAILED"}:
            fields = [self.attempted, *self.attempted["InstanceGroups"]]
            self.deeds.unknown_fields |= {name for each in fields for name in each}
        self.attempted = properties
        if how.trouble:
            self.mishaps.trouble(how.trouble)
        if how.by_hand_first and self.must_hold.in_service():
            self.deeds.drift = True
            self.by_hand(self.operator.update_cluster, InstanceGroups=properties["InstanceGroups"])
            # Whoever sent that gave the counts, too.
            self.must_hold.raised_by_hand.clear()
        with self.mishaps.during(how.mishaps, how.given_up):
            self.stacks.deploy(properties, fails_later=how.fails_later, on_failure=how.on_failure, guard=how.guard)

    def go_back_with(self, mishaps: list[Mishap]) -> None:
        with self.mishaps.during(mishaps):
            self.stacks.continue_rollback()
        self.look("go back")

    def change_groups_by_hand(self, groups: list[dict[str, Any]]) -> None:
        """Update the groups, and wait until that is over."""
        self.by_hand(self.operator.update_cluster, InstanceGroups=groups)
        self.bench.advance(15)

    def make_a_group_by_hand(self, name: str) -> None:
        # What a failed update had added under this name goes first.
        self.bench.advance(15)
        # Nobody tells it from one that a failed update of this stack has added.
        taken = name in self.named and self.stacks.status not in UPDATABLE
        if name not in self.must_hold.groups() and not taken:
            self.deeds.by_hand.add(name)
            self.change_groups_by_hand([*self.given(), self.bench.group(name, "ml.g5.2xlarge", 1)])
            self.must_hold.protect(made=name)

    def given(self) -> list[dict[str, Any]]:
        """The specifications of the cluster's groups."""
        return [dict(group.specification) for group in self.must_hold.groups().values()]

    def let_others_be_there(self, what: str) -> None:
        changes: dict[str, Any] = {"ClusterName": "theirs" if what == "EKS cluster" else NAME}
        if what != "EKS cluster":
            changes["Orchestrator"] = {"Eks": {"ClusterArn": self.bench.add_eks_cluster("other")}}
        if what == "name, other stack":
            tags = {STACK_TAG: OTHER_STACK, RESOURCE_TAG: "Cluster"}
            changes["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
        self.by_hand(self.operator.create_cluster, **self.bench.request(**changes))
        made = self.judge.clusters.get(changes["ClusterName"])
        if made:
            self.foreign[made.name] = made.arn

    def by_hand(self, call: Callable[..., Any], **request: Any) -> None:
        try:
            call(**{"ClusterName": NAME} | request)
        except ClientError:
            self.seen["refused by hand"] += 1

    def before_request(self) -> None:
        while self.late:
            self.seen["delivered late"] += 1
            self.mishaps.deliver(self.late.pop())

    def look(self, step: str) -> None:
        self.seen[f"{step}: {self.stacks.status}"] += 1
        self.must_hold.check()

    def teardown(self) -> None:
        """Repair everything; then the stack goes, and with it everything that is its own."""
        try:
            self.seen["sequences"] += 1
            self.mishaps.repair()
            self.late.clear()
            self.stacks.crashes = 0
            self.bench.advance(240)
            if self.deeds.removed_by_hand and NAME in self.foreign:
                del self.foreign[NAME]
                # The stack's own cluster was replaced by hand: it is not deleted, which the stack's deletion says.
                self.operator.delete_cluster(ClusterName=NAME)
                self.bench.advance(60)
            if self.stacks.living:
                self.stacks.delete()
                self.look("end")
                assert self.stacks.status == "DELETE_COMPLETE", self.stacks.reasons()
            assert set(self.judge.clusters) == set(self.foreign)
        finally:
            self.close()

    def close(self) -> None:
        """End the sequence, whatever is left."""
        self.seen["requests judged"] += self.judge.succeeded + self.judge.failed
        self.seen["API calls"] += len(self.stacks.framework.calls)
        self.stacks.close()
        self.patch.undo()
