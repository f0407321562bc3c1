"""Sequences of deployments through the real engine, with everything that can go wrong on the way.

Invariants, checked after every step: no cluster that no stack owns; no cluster that is not ours is touched; no success
is told for a state that is not reached; every failure names its cause; what the stack believes is what there is, also
when a request runs on for which CloudFormation no longer waits. At the end of every sequence what was broken is
repaired, and then the stack must be deletable with nothing left.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from handlers.hyperpod_cluster.ownership import RESOURCE_TAG, STACK_TAG
from rehearsal.account.hyperpod.bench import HyperPodBench
from rehearsal.account.hyperpod.faults import Faults
from rehearsal.account.hyperpod.model import ClusterStatus
from rehearsal.account.hyperpod.required_permissions import REQUIRED
from tests.handlers.changing import BY_HAND, EDITS, NEVER, edited
from tests.handlers.engine import Deployments
from tests.handlers.framework import NO_RETRIES, Event, Killed
from tests.handlers.judging import NAME, Deeds, Judge

UPDATABLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
FINAL = {"DELETE_COMPLETE", "ROLLBACK_COMPLETE"}
CALLS = sorted(
    {call for call in REQUIRED if call.startswith(("Create", "Describe", "Update", "Delete", "List", "AddT"))}
)
MISHAPS = ["killed", "ThrottlingException", "InternalFailure", "AccessDeniedException", "ConflictException"]
MISHAPS += ["time-out", "delivered twice"]
TROUBLES = ["shortage", "quota", "creation fails", "no dependencies", "deep check fails"]
TROUBLES += ["update taken back", "deletion fails", "reads lag"]
ENDS = {
    *(f"create: {status}" for status in ("CREATE_COMPLETE", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")),
    *(f"update: {status}" for status in ("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED")),
    *(f"delete: {status}" for status in ("DELETE_COMPLETE", "DELETE_FAILED")),
    *(f"mishap: {mishap}" for mishap in MISHAPS),
    "delivered late",
    "given up",
}
OTHER_STACK = "arn:aws:cloudformation:us-west-2:111122223333:stack/another/0b1f6c1a-0000-0000-0000-000000000009"

_edits = st.builds(
    frozenset.union,
    st.frozensets(st.sampled_from(sorted(EDITS.keys() - NEVER)), max_size=3),
    st.sampled_from([frozenset()] * 10 + [frozenset({edit}) for edit in sorted(NEVER)]),
)
Mishap = tuple[str, int, bool]
# At the n-th call of the step: before it is carried out, or after, so that only its answer is lost.
_mishaps = st.lists(st.tuples(st.sampled_from(MISHAPS), st.integers(0, 8), st.booleans()), max_size=2)


@dataclass(frozen=True)
class Deploying:
    """One deployment. `given_up` is at which moment that passes CloudFormation gives up on the cluster's request: a
    user cancels the update, or a sibling of the cluster fails; None for never. `guard` is the teardown's logical id.
    """

    edits: frozenset[str]
    fails_later: bool
    on_failure: str
    mishaps: list[Mishap]
    given_up: int | None
    guard: str


_deployments = st.builds(
    Deploying,
    edits=_edits,
    fails_later=st.booleans(),
    on_failure=st.sampled_from(["ROLLBACK", "ROLLBACK", "DO_NOTHING"]),
    mishaps=_mishaps,
    given_up=st.sampled_from([None, None, None, 0, 1, 2, 4]),
    guard=st.sampled_from(["Teardown"] * 5 + ["OtherTeardown"]),
)


class Sequences(RuleBasedStateMachine):
    """One stack, one account, and what people, AWS and chance do to them."""

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
        self.judge = Judge(self.bench, self.deeds, lambda: self.stacks.status)
        self.stacks.judge = self.judge
        self.stacks.before_request = self.before_request
        self.late: list[Event] = []
        self.foreign: dict[str, str] = {}
        self.operator: Any = self.bench.client("sagemaker", config=NO_RETRIES)

    # --- deployments -------------------------------------------------------------------------------------

    @precondition(lambda self: not self.stacks.living)
    @rule(how=_deployments)
    def create_stack(self, how: Deploying) -> None:
        # What was on its way to the functions of the stack before has no receiver.
        self.late.clear()
        self.stacks.requests.clear()
        self.deploy(replace(how, guard="Teardown"))
        self.look("create")

    @precondition(lambda self: self.stacks.status in UPDATABLE)
    @rule(how=_deployments)
    def update_stack(self, how: Deploying) -> None:
        self.deploy(how)
        self.look("update")

    @precondition(lambda self: self.stacks.status in {"UPDATE_FAILED", "CREATE_FAILED"})
    @rule(how=_deployments)
    def update_without_rollback(self, how: Deploying) -> None:
        self.deploy(replace(how, on_failure="DO_NOTHING", guard="Teardown"))
        self.look("update")

    @precondition(lambda self: self.stacks.status in {"UPDATE_ROLLBACK_FAILED", "UPDATE_FAILED", "CREATE_FAILED"})
    @rule(mishaps=_mishaps)
    def go_back(self, mishaps: list[Mishap]) -> None:
        with self.going_wrong(mishaps):
            self.stacks.continue_rollback()
        self.look("go back")

    @precondition(lambda self: self.stacks.living)
    @rule(mishaps=_mishaps)
    def delete_stack(self, mishaps: list[Mishap]) -> None:
        # A person looks at what failed first.
        self.bench.advance(1)
        with self.going_wrong(mishaps):
            self.stacks.delete()
        self.look("delete")

    # --- chance ------------------------------------------------------------------------------------------

    @rule(call=st.sampled_from(CALLS), code=st.sampled_from(["ThrottlingException", "AccessDeniedException"]))
    def let_a_call_always_fail(self, call: str, code: str) -> None:
        self.deeds.errors.add((call, code))
        self.bench.fault(errors={call: code})

    @rule(times=st.integers(1, 3))
    def let_the_framework_crash(self, times: int) -> None:
        self.deeds.killed = True
        self.stacks.crashes = times

    @precondition(lambda self: self.stacks.living and self.stacks.requests)
    @rule(which=st.integers(0, 20))
    def let_a_request_come_late(self, which: int) -> None:
        """An earlier request of this stack once more, before the next one. A deleted stack has no functions left."""
        self.late.append(self.stacks.requests[which % len(self.stacks.requests)])

    @rule(fault=st.sampled_from([*TROUBLES]))
    def let_the_service_be_in_trouble(self, fault: str) -> None:
        if fault == "shortage":
            self.bench.fault(capacity={"ml.p5.48xlarge": 0})
        elif fault == "quota":
            self.deeds.quota = True
            self.bench.fault(quota={"ml.p5.48xlarge": 1})
        elif fault == "creation fails":
            self.bench.fault(fail_creation="The creation was made to fail.")
        elif fault == "no dependencies":
            self.bench.eks.missing = ["health-monitoring-agent"]
        elif fault == "update taken back":
            self.deeds.taken_back = True
            self.bench.fault(fail_update="The update was made to fail.")
        elif fault == "deletion fails":
            self.bench.fault(fail_deletion="The deletion was made to fail.")
        elif fault == "reads lag":
            self.bench.fault(lag_minutes=0.4)
        else:
            self.bench.fault(fail_deep_check={"group": "worker-group-1", "times": 1})

    # --- people ------------------------------------------------------------------------------------------

    @rule()
    def repair(self) -> None:
        self.bench.fault(clear=True)
        self.bench.eks.missing = []

    @rule(minutes=st.sampled_from([1, 10, 30, 240]))
    def wait(self, minutes: int) -> None:
        self.bench.advance(minutes)

    @initialize(state=st.sampled_from(["running"] * 6 + ["nothing"] * 2 + ["name", "name, other stack", "EKS cluster"]))
    def start(self, state: str) -> None:
        """A deployed stack, or none, or clusters of others that take what the stack will want."""
        if state == "running":
            self.stacks.deploy(edited(self.bench, ()))
            self.bench.advance(60)
        elif state != "nothing":
            self.let_others_be_there(state)

    @precondition(lambda self: self.in_service())
    @rule(deed=st.sampled_from(["software", "group", "count", "delete"]))
    def change_it_by_hand(self, deed: str) -> None:
        if deed == "delete":
            self.deeds.removed_by_hand = True
            self.by_hand(self.operator.delete_cluster)
        elif deed == "software":
            self.by_hand(self.operator.update_cluster_software)
        else:
            self.deeds.drift = True
            groups = [group.specification for group in self.judge.clusters[NAME].groups.values() if not group.deleting]
            if deed == "group":
                groups.append(self.bench.group(BY_HAND, "ml.g5.2xlarge", 1))
            else:
                self.deeds.raised.add("4")
                groups = [group | {"InstanceCount": 4} for group in groups]
            self.by_hand(self.operator.update_cluster, InstanceGroups=groups)

    @precondition(lambda self: self.deeds.removed_by_hand and not self.judge.clusters and self.stacks.living)
    @rule()
    def make_another_of_the_same_name_by_hand(self) -> None:
        self.let_others_be_there("name")

    # --- inside ------------------------------------------------------------------------------------------

    def deploy(self, how: Deploying) -> None:
        properties = edited(self.bench, how.edits)
        with self.going_wrong(how.mishaps, how.given_up):
            self.stacks.deploy(properties, fails_later=how.fails_later, on_failure=how.on_failure, guard=how.guard)

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

    @contextmanager
    def going_wrong(self, mishaps: list[Mishap], given_up: int | None = None) -> Iterator[None]:
        """Let these calls of the step go wrong, and CloudFormation give up on a request."""
        framework = self.stacks.framework
        if given_up is not None:
            self.stacks.give_up_at(given_up)
        for mishap, position, after in mishaps:
            framework.interrupt(position, partial(self.mishap, mishap), after=after)
        yield
        framework.interruptions.clear()
        framework.pauses.clear()
        self.seen["given up"] += self.stacks.given_up
        self.stacks.given_up = 0

    def by_hand(self, call: Callable[..., Any], **request: Any) -> None:
        try:
            call(**{"ClusterName": NAME} | request)
        except ClientError:
            self.seen["refused by hand"] += 1

    def in_service(self) -> bool:
        cluster = self.judge.clusters.get(NAME)
        return cluster is not None and cluster.status is ClusterStatus.IN_SERVICE and NAME not in self.foreign

    def mishap(self, mishap: str, call: str) -> None:
        self.seen[f"mishap: {mishap}"] += 1
        self.deeds.errors.add((call, mishap))
        if mishap == "killed":
            self.deeds.killed = True
            raise Killed("Task timed out after 120.00 seconds")
        if mishap == "time-out":
            self.deeds.killed = True
            self.stacks.framework.time_out()
        if mishap == "delivered twice":
            request = self.stacks.requests[-1]
            self.stacks.answer(request, self.stacks.framework.handle(request))
            return
        raise ClientError({"Error": {"Code": mishap, "Message": "as it was asked to answer"}}, call)

    def before_request(self) -> None:
        while self.late:
            self.deeds.drift = True
            self.seen["delivered late"] += 1
            self.stacks.framework.handle(self.late.pop())

    def look(self, step: str) -> None:
        """The invariants that do not hang on one answer."""
        status, stack = self.stacks.status, self.stacks.stack
        self.seen[f"{step}: {status}"] += 1
        assert stack is not None
        calm = not (self.deeds.errors or self.deeds.killed or self.deeds.removed_by_hand or self.deeds.drift)
        if calm and status.endswith("ROLLBACK_FAILED"):
            assert "has not ended after" in self.stacks.reasons()[-1], "a rollback failed, and nothing was in its way"
        self.believed(status)
        assert status not in FINAL or not self.judge.owned_by(stack.stack_id), "a cluster that no stack owns"
        for name, arn in self.foreign.items():
            cluster = self.judge.clusters.get(name)
            assert cluster is not None, f"the foreign cluster {name} is gone"
            assert cluster.arn == arn
            assert cluster.status is not ClusterStatus.DELETING, f"the foreign cluster {name} is being deleted"
        known = {stack.stack_id, OTHER_STACK}
        for cluster in self.judge.clusters.values():
            assert cluster.name in self.foreign or cluster.tag_values[STACK_TAG] in known

    def believed(self, status: str) -> None:
        """What the stack believes to have is what there is, once the cluster comes to rest."""
        cluster = self.judge.clusters.get(NAME)
        if status not in UPDATABLE or self.deeds.drift or self.deeds.removed_by_hand or cluster is None:
            return
        assert self.stacks.stack is not None
        groups = self.stacks.stack.resources["Cluster"].properties["InstanceGroups"]
        if cluster.status is ClusterStatus.IN_SERVICE:
            counts = {name: group.target for name, group in cluster.groups.items() if not group.deleting}
            assert counts == {group["InstanceGroupName"]: group["InstanceCount"] for group in groups}

    def teardown(self) -> None:
        """Repair everything; then the stack goes, and with it everything that is its own."""
        try:
            self.seen["sequences"] += 1
            self.repair()
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
            self.seen["requests judged"] += self.judge.succeeded + self.judge.failed
            self.seen["API calls"] += len(self.stacks.framework.calls)
            self.stacks.close()
            self.patch.undo()


@pytest.fixture
def machine() -> Iterator[type[Sequences]]:
    with HyperPodBench() as bench:
        yield type("Sequences", (Sequences,), {"bench": bench, "seen": Counter()})


def explore(machine: Any, examples: int, steps: int, record: Callable[[str, object], None], **options: Any) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            **options,
        ),
    )
    record("explored", dict(machine.seen))


def test_invariants_hold_over_sequences(machine: Any, record_property: Callable[[str, object], None]) -> None:
    explore(machine, 150, 8, record_property, derandomize=True)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_invariants_hold_over_thousands_of_sequences(
    machine: Any, record_property: Callable[[str, object], None], part: int
) -> None:
    explore(machine, 600, 12, record_property)
    assert machine.seen.keys() >= ENDS, "the exploration misses ends that it is there for"
