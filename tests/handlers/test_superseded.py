"""Requests for which CloudFormation no longer waits: cancelled, delivered again, or followed by a later one."""

from copy import deepcopy
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from handlers.hyperpod_cluster.precedence import REQUESTS_TAG, requests_tag
from tests.handlers.support.clients import REGISTRATION
from tests.handlers.support.cloudformation import CloudFormation
from tests.handlers.support.edits import edited
from tests.handlers.support.engine import Deployments
from tests.handlers.support.framework import MARKER, Properties
from tests.handlers.support.judging import clusters, live

NOT_CONSISTENT = {
    "error": "ValidationException",
    "message": "Unable to retrieve subnets. Please ensure that the execution role allows the action sts:AssumeRole",
}


def nodes(bench: HyperPodBench) -> set[str]:
    [cluster] = bench.hyperpod.world.clusters.values()
    return set(cluster.nodes)


def grown(properties: Properties, count: int) -> Properties:
    """Return the properties with so many workers."""
    new = deepcopy(properties)
    new["InstanceGroups"][1]["InstanceCount"] = count
    return new


@pytest.fixture
def created(cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench) -> Properties:
    """Return the properties of a cluster whose nodes all run."""
    assert cloudformation.create(properties).succeeded
    bench.advance(minutes=120)
    cloudformation.calls.clear()
    return properties


@pytest.mark.parametrize(
    "edits",
    [("more workers",), ("other tags",), ("new group",), ("no workers", "removal confirmed")],
    ids=lambda edits: edits[0],
)
def test_deferred_update_that_is_cancelled_changes_nothing_after_its_rollback(
    running: Deployments, bench: HyperPodBench, sagemaker: Any, edits: tuple[str, ...]
) -> None:
    """The cluster is busy and the update waits; then a user cancels it, or another resource fails."""
    before, machines = live(bench), nodes(bench)
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    running.give_up_at(4)
    assert running.deploy(edited(bench, edits)) == "UPDATE_ROLLBACK_COMPLETE"
    bench.advance(60)
    assert live(bench) == before
    assert nodes(bench) == machines


def test_deferred_update_writes_nothing_once_the_rollback_has_begun(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    """CloudFormation rolls back other resources first and has not sent this resource's rollback yet."""
    before = live(bench)
    sagemaker.update_cluster_software(ClusterName="ml-cluster")

    def cancel() -> None:
        cloudformation.stack_status = "UPDATE_ROLLBACK_IN_PROGRESS"

    cloudformation.framework.at_pause(4, cancel)
    response = cloudformation.update("ml-cluster", grown(created, 3), created)
    assert response.reason.startswith("Update of HyperPod cluster ml-cluster was superseded: ")
    assert live(bench) == before


def test_deferred_update_writes_nothing_once_a_newer_request_has_come_and_names_it(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    """The update was cancelled and rolled back, and its stack is updated again."""
    before = live(bench)
    sagemaker.update_cluster_software(ClusterName="ml-cluster")

    def follow() -> None:
        [cluster] = bench.hyperpod.world.clusters.values()
        cluster.tag_values[REQUESTS_TAG] += " newer"

    cloudformation.framework.at_pause(4, follow)
    response = cloudformation.update("ml-cluster", grown(created, 3), created)
    assert response.reason == (
        "Update of HyperPod cluster ml-cluster was superseded: request newer came after it. Nothing is changed"
    )
    assert live(bench) == before


def test_deferred_update_reads_each_fact_once_in_the_invocation_that_sends_it(
    running: Deployments, bench: HyperPodBench, sagemaker: Any
) -> None:
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_COMPLETE"
    calls = running.framework.calls
    sent = len(calls) - calls[::-1].index("UpdateCluster")
    assert calls[sent - 5 : sent] == [
        "DescribeCluster",
        *("ListTags", "DescribeStacks", "ListClusterNodes", "UpdateCluster"),
    ]


def test_throttled_update_is_not_sent_again_after_its_rollback(running: Deployments, bench: HyperPodBench) -> None:
    before = live(bench)
    bench.fault(errors={"UpdateCluster": {"error": "ThrottlingException", "times": 2}})
    running.give_up_at(0)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


@pytest.mark.parametrize("status", ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_COMPLETE"])
def test_update_that_is_delivered_again_after_a_newer_one_changes_nothing(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench, status: str
) -> None:
    first = {"RequestId": "11111111-0000-0000-0000-000000000001", "during": status}
    cloudformation.update("ml-cluster", grown(created, 3), created, RequestId=first["RequestId"])
    assert cloudformation.roll_back("ml-cluster", created, grown(created, 3)).succeeded
    before = live(bench)
    response = cloudformation.update("ml-cluster", grown(created, 3), created, **first)
    assert response.reason.startswith("Update of HyperPod cluster ml-cluster was superseded: ")
    assert live(bench) == before


@pytest.mark.parametrize("status", ["UPDATE_ROLLBACK_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_FAILED"])
def test_update_for_which_no_operation_runs_changes_nothing(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench, status: str
) -> None:
    """The function failed at its end, the stack was rolled back, and then Lambda retries the function."""
    before = live(bench)
    response = cloudformation.update("ml-cluster", grown(created, 3), created, during=status)
    assert response.reason.startswith("Update of HyperPod cluster ml-cluster was superseded: ")
    assert live(bench) == before


def test_update_that_is_delivered_again_as_its_rollback_begins_leaves_the_note_to_it(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> None:
    """The function was killed, and the rollback has not registered yet: the repeated delivery is not a rollback."""
    before, once = live(bench), {"RequestId": "11111111-0000-0000-0000-000000000001"}
    more = deepcopy(created)
    more["InstanceGroups"].append(bench.group("more", "ml.g5.2xlarge", 1))
    cloudformation.kill("UpdateCluster")
    assert not cloudformation.update("ml-cluster", more, created, **once).succeeded
    repeated = cloudformation.update("ml-cluster", more, created, during="UPDATE_ROLLBACK_IN_PROGRESS", **once)
    assert repeated.reason.startswith("Update of HyperPod cluster ml-cluster was superseded: its stack is rolled back")
    assert cloudformation.roll_back("ml-cluster", created, more).succeeded
    assert live(bench) == before


def test_create_that_is_delivered_again_after_an_update_changes_nothing(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench
) -> None:
    cloudformation.create(properties, RequestId="once")
    bench.advance(60)
    assert cloudformation.update("ml-cluster", grown(properties, 3), properties).succeeded
    bench.advance(60)
    before = live(bench)
    response = cloudformation.create(properties, RequestId="once")
    assert response.reason.startswith("Create of HyperPod cluster ml-cluster was superseded: ")
    assert live(bench) == before


def test_create_that_is_delivered_again_keeps_what_was_changed_by_hand_since(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench, sagemaker: Any
) -> None:
    """Somebody raised the count of the cluster that this request created; the stack is being updated."""
    [request] = bench.hyperpod.world.clusters["ml-cluster"].tag_values[REQUESTS_TAG].split()
    sagemaker.update_cluster(ClusterName="ml-cluster", InstanceGroups=grown(created, 4)["InstanceGroups"])
    bench.advance(60)
    before, machines = live(bench), nodes(bench)
    assert cloudformation.create(created, RequestId=request, during="UPDATE_IN_PROGRESS").succeeded
    assert live(bench) == before
    assert nodes(bench) == machines


def test_every_update_registers_itself_before_it_changes_anything(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> None:
    """Even an update that finds nothing to change registers, such as the rollback of a deferred update."""
    for wanted, changes in ((created, [REGISTRATION]), (grown(created, 3), [REGISTRATION, "UpdateCluster"])):
        cloudformation.calls.clear()
        assert cloudformation.update("ml-cluster", wanted, created, RequestId=f"to-{len(changes)}").succeeded
        assert [call for call in cloudformation.calls if not call.startswith(("Describe", "List"))] == changes
        [cluster] = bench.hyperpod.world.clusters.values()
        assert cluster.tag_values[REQUESTS_TAG].endswith(f" to-{len(changes)}")


def test_as_many_requests_are_remembered_as_a_tag_has_room_for() -> None:
    ids = [f"{number:08}-1111-2222-3333-444444444444" for number in range(20)]
    [remembered] = requests_tag(*ids).values()
    assert len(remembered) <= 256 < len(remembered) + 1 + len(ids[0])
    assert ids[-1] == remembered.split()[-1]


def test_update_that_is_delivered_twice_is_carried_out_once(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> None:
    for _ in range(2):
        assert cloudformation.update("ml-cluster", grown(created, 3), created, RequestId="once").succeeded
    assert cloudformation.calls.count("UpdateCluster") == 1
    assert live(bench)["groups"][1]["InstanceCount"] == 3


def test_newest_requests_are_remembered_and_older_ones_forgotten(
    cloudformation: CloudFormation, created: Properties, bench: HyperPodBench
) -> None:
    """A tag holds 256 characters; a repeated delivery comes within hours, before six more requests."""
    for count in (3, 4, 5, 6, 7, 8, 9):
        properties, old = grown(created, count), grown(created, count - 1)
        assert cloudformation.update("ml-cluster", properties, old, RequestId=f"update-to-{count}-{'x' * 25}").succeeded
    before = live(bench)
    repeated = cloudformation.update(
        "ml-cluster", grown(created, 4), grown(created, 3), RequestId=f"update-to-4-{'x' * 25}"
    )
    assert "was superseded" in repeated.reason
    assert live(bench) == before


@pytest.mark.parametrize("pause", [0, 1])
def test_create_that_repeats_its_call_creates_nothing_after_the_stack_was_rolled_back(
    stacks: Deployments, bench: HyperPodBench, pause: int
) -> None:
    bench.fault(errors={"CreateCluster": NOT_CONSISTENT | {"times": 3}})
    stacks.give_up_at(pause)
    assert stacks.deploy(edited(bench, ())) == "ROLLBACK_COMPLETE"
    assert clusters(bench) == []


@pytest.mark.parametrize("status", ["ROLLBACK_IN_PROGRESS", "DELETE_IN_PROGRESS", "DELETE_COMPLETE", "CREATE_COMPLETE"])
def test_create_for_which_no_operation_waits_creates_nothing(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, status: str
) -> None:
    response = cloudformation.create(properties, during=status)
    assert response.physical_id == MARKER
    assert response.reason.startswith("Create of HyperPod cluster ml-cluster was superseded: ")
    assert clusters(bench) == []


def test_rollback_that_reads_stale_tags_supersedes_all_the_same(
    running: Deployments, bench: HyperPodBench, sagemaker: Any
) -> None:
    before = live(bench)
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    bench.fault(lag_minutes=2)
    running.give_up_at(2)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    bench.advance(60)
    assert live(bench) == before


def test_rollback_that_does_not_see_yet_what_it_takes_back_takes_it_back(
    running: Deployments, bench: HyperPodBench
) -> None:
    """A user cancels the update seconds after it was sent; DescribeCluster still shows the previous state."""
    before = live(bench)
    bench.fault(lag_minutes=0.4)
    running.give_up_at(0)
    assert running.deploy(edited(bench, ["new group", "more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    bench.advance(60)
    assert live(bench) == before
