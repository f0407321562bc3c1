"""A state machine: one stack, one account, and what people, AWS and chance do to them.

Invariants, checked after every step:

- every cluster has an owner, and others' clusters are untouched;
- nodes are removed only with consent;
- a success is reported only for a state that is reached;
- every failure names its cause, in the service's own words if it gives any;
- no request is carried out again and again;
- the stack's record matches the cluster, even if a superseded request is still running.

At the end of every sequence all troubles are repaired; then the stack must be deletable with nothing left.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from embedded_account.hyperpod import model, views
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.faults import Faults
from embedded_account.hyperpod.permissions.required import REQUIRED
from handlers.hyperpod_cluster.ownership import RESOURCE_TAG, STACK_TAG
from tests.handlers.support import steps
from tests.handlers.support.clients import NO_RETRIES
from tests.handlers.support.cloudformation import OTHER_STACK
from tests.handlers.support.edits import BY_HAND, WORKERS, edited
from tests.handlers.support.engine import Deployments
from tests.handlers.support.framework import Event
from tests.handlers.support.invariants import UPDATABLE, Invariants
from tests.handlers.support.judging import NAME, Deeds, Judge
from tests.handlers.support.mishaps import Mishaps
from tests.handlers.support.steps import Deploying, Mishap

# Fields of a group that a request can reset explicitly.
OMITTABLE = ("ImageId", "InstanceStorageConfigs", "KubernetesConfig", "MinInstanceCount")
CALLS = sorted(
    {call for call in REQUIRED if call.startswith(("Create", "Describe", "Update", "Delete", "List", "AddT"))}
)
RAISING = ("raise", "raise workers", "grow")


class Sequences(RuleBasedStateMachine):
    """One sequence; `seen` counts what happened in all sequences."""

    bench: HyperPodBench
    seen: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        world = self.bench.hyperpod.world
        # The sequence before left clusters of others, or anything if it failed.
        for cluster in world.clusters.values():
            self.bench.background.drop_all(cluster.arn)
        world.clusters.clear()
        world.faults = Faults()
        self.bench.eks.missing = []
        self.bench.journal.clear()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(views, "ECHOED", (*views.ECHOED, "AutoScaling"))
        self.deeds = Deeds()
        self.stacks = Deployments(self.bench, self.patch)
        self.judge = Judge(self.bench, self.deeds, lambda: self.stacks.status, self.stacks.framework.carried_out)
        self.stacks.judge = self.judge
        self.stacks.before_request = self.before_request
        self.late: list[Event] = []
        # What is delivered for the first time after so many more requests, and at which call of that request.
        self.arriving: list[tuple[int, int | None, Event]] = []
        self.must_hold = Invariants(self.stacks, self.judge, self.deeds)
        self.foreign = self.must_hold.foreign
        self.mishaps = Mishaps(self.bench, self.stacks, self.deeds, self.must_hold, self.seen)
        self.templates: list[dict[str, Any]] = []
        self.named: set[str] = set()
        self.operator: Any = self.bench.client("sagemaker", config=NO_RETRIES)

    # --- deployments -------------------------------------------------------------------------------------

    @precondition(lambda self: not self.stacks.living)
    @rule(how=steps.deployments)
    def create_stack(self, how: Deploying) -> None:
        # Late requests of the stack before are lost: its functions are deleted.
        self.late.clear()
        self.arriving.clear()
        self.stacks.requests.clear()
        self.deploy(replace(how, guard="Teardown"))
        self.look("create")

    @precondition(lambda self: self.stacks.status in UPDATABLE)
    @rule(how=steps.deployments)
    def update_stack(self, how: Deploying) -> None:
        self.deploy(how)
        self.look("update")

    # Hypothesis draws rules evenly: the most important one is listed twice.
    update_stack_too = update_stack

    @precondition(lambda self: self.stacks.status in UPDATABLE and self.must_hold.in_service())
    @rule(
        deed=st.sampled_from(["raise", "raise workers", "grow", *BY_HAND]), how=steps.deployments, refused=steps.refused
    )
    def refuse_an_update_after_a_change_by_hand(self, deed: str, how: Deploying, refused: str) -> None:
        self.change_it_by_hand(deed=deed)
        self.deploy(replace(how, edits=how.edits | {refused}))
        self.look("update")

    @precondition(lambda self: self.stacks.status in UPDATABLE and self.stacks.has_cluster)
    @rule(how=steps.deployments, again=steps.deployments, delivered=steps.late)
    def remove_the_cluster_and_return_it(
        self, how: Deploying, again: Deploying, delivered: tuple[int, int | None] | None
    ) -> None:
        """Deploy a template without the cluster, and then one with it; the deletion can be delivered again."""
        self.seen["cluster removed"] += 1
        with self.mishaps.during([]):
            self.stacks.deploy(edited(self.bench, how.edits), guard=how.guard, without_cluster=True)
        self.look("remove")
        if self.stacks.status in UPDATABLE and not self.stacks.has_cluster:
            if delivered:
                deletions = [each for each in self.stacks.requests if each["RequestType"] == "Delete"]
                self.arriving += [(*delivered, each) for each in deletions[-1:]]
            self.deploy(again)
            self.look("return")

    @precondition(lambda self: self.stacks.status in {"UPDATE_FAILED", "CREATE_FAILED"})
    @rule(how=steps.chained)
    def update_without_rollback(self, how: Deploying) -> None:
        self.deploy(replace(how, on_failure="DO_NOTHING", guard="Teardown"))
        self.look("update")

    @precondition(lambda self: self.stacks.status in UPDATABLE)
    @rule(chain=st.lists(steps.chained, min_size=2, max_size=3), mishaps=steps.mishaps)
    def update_in_a_chain(self, chain: list[Deploying], mishaps: list[Mishap]) -> None:
        """Deploy updates without rollback, each after a failed one; then roll back."""
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
        # A person needs a minute to look at what failed.
        self.bench.advance(1)
        with self.mishaps.during(mishaps):
            self.stacks.delete()
        self.look("delete")

    # --- chance ------------------------------------------------------------------------------------------

    @rule(what=st.sampled_from(steps.EVENTS), which=st.integers(0, 99))
    def let_something_happen(self, what: str, which: int) -> None:
        """Cause the event `what`; `which` chooses among calls, codes and requests."""
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
            # Deliver it again before the next request. A deleted stack has no functions left.
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
        """Begin with a deployed stack, with none, or with others' clusters that use what the stack will need.

        `keeps_omitted`: AWS documents for few fields only whether an update keeps a field that a group omits.
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
    @rule(deed=st.sampled_from(["software", "delete", *RAISING, *BY_HAND]))
    def change_it_by_hand(self, deed: str) -> None:
        if deed == "software":
            self.by_hand(self.operator.update_cluster_software)
        elif deed == "grow":
            self.let_karpenter_grow_a_group()
        elif deed == "delete":
            self.deeds.removed_by_hand = True
            self.by_hand(self.operator.delete_cluster)
        elif deed in {"raise", "raise workers"}:
            self.deeds.raised.add("4")
            raised = {WORKERS} if deed == "raise workers" else self.must_hold.groups().keys()
            self.change_groups_by_hand(
                [each | ({"InstanceCount": 4} if each["InstanceGroupName"] in raised else {}) for each in self.given()]
            )
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
            fields = [each for template in self.templates for each in (template, *template["InstanceGroups"])]
            self.deeds.unknown_fields |= {name for each in fields for name in each}
        else:
            self.templates = [self.stacks.properties] if self.stacks.has_cluster else []
        self.templates.append(properties)
        if how.trouble:
            self.mishaps.trouble(how.trouble)
        self.stacks.lose_next(how.late is not None)
        if how.by_hand_first and self.must_hold.in_service():
            self.deeds.drift = True
            self.deeds.raised |= {str(group["InstanceCount"]) for group in properties["InstanceGroups"]}
            self.by_hand(self.operator.update_cluster, InstanceGroups=properties["InstanceGroups"])
            # That update also set all counts.
            self.must_hold.raised_by_hand.clear()
        with self.mishaps.during(how.mishaps, how.given_up):
            late = how.late or (0, None)
            self.stacks.on_lost = lambda request: self.arriving.append((*late, request))
            self.stacks.deploy(properties, fails_later=how.fails_later, on_failure=how.on_failure, guard=how.guard)

    def let_karpenter_grow_a_group(self) -> None:
        """Enable autoscaling outside the stack, as nothing in it does, and let Karpenter add nodes."""
        [cluster] = [each for name, each in self.judge.clusters.items() if name == NAME]
        self.deeds.autoscaled = True
        cluster.request["AutoScaling"] = {"Mode": "Enable", "AutoScalerType": "Karpenter", "Status": "InService"}
        for group in list(self.must_hold.groups().values())[-1:]:
            group.target += 5
            group.specification["InstanceCount"] = group.target
            self.deeds.raised.add(str(group.target))
            self.bench.hyperpod.nodes.fill(cluster, group)
            self.must_hold.protect(raised_to=group.target)

    def go_back_with(self, mishaps: list[Mishap]) -> None:
        with self.mishaps.during(mishaps):
            self.stacks.continue_rollback()
        self.look("go back")

    def change_groups_by_hand(self, groups: list[dict[str, Any]]) -> None:
        """Update the groups, and wait until the update is done."""
        self.by_hand(self.operator.update_cluster, InstanceGroups=groups)
        self.bench.advance(15)

    def make_a_group_by_hand(self, name: str) -> None:
        # A group of this name that a failed update had added is gone after this time.
        self.bench.advance(15)
        # Nothing distinguishes it from a group that a failed update of this stack added.
        taken = name in self.named and self.stacks.status not in UPDATABLE
        if name not in self.must_hold.groups() and not taken:
            self.deeds.by_hand.add(name)
            self.change_groups_by_hand([*self.given(), self.bench.group(name, "ml.g5.2xlarge", 1)])
            self.must_hold.protect(made=name)

    def given(self) -> list[dict[str, Any]]:
        """Return the specifications of the cluster's groups."""
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
        due = [each for each in self.arriving if each[0] <= 0]
        self.arriving = [(left - 1, call, request) for left, call, request in self.arriving if left > 0]
        for _, call, request in due:
            self.seen["first delivered late"] += 1
            if call is None:
                self.mishaps.deliver(request)
            else:
                self.stacks.framework.interrupt(call, partial(self.mishaps.deliver, request), after=False)

    def look(self, step: str) -> None:
        self.seen[f"{step}: {self.stacks.status}"] += 1
        self.must_hold.check()

    def teardown(self) -> None:
        """Repair everything and delete the stack; check that nothing of it is left."""
        try:
            self.seen["sequences"] += 1
            self.mishaps.repair()
            self.late.clear()
            self.arriving.clear()
            self.stacks.crashes = 0
            self.bench.advance(240)
            if self.deeds.removed_by_hand and NAME in self.foreign:
                del self.foreign[NAME]
                # Somebody replaced the stack's own cluster: the stack's deletion would refuse to delete it.
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
        """End the sequence in whatever state it is."""
        self.seen["requests judged"] += self.judge.succeeded + self.judge.failed
        self.seen["API calls"] += len(self.stacks.framework.calls)
        self.stacks.close()
        self.patch.undo()
