"""CloudFormation's rollbacks, through the real engine, from every intermediate state."""

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support.clients import FORGETTING, REGISTRATION
from tests.handlers.support.cloudformation import strings
from tests.handlers.support.edits import edited
from tests.handlers.support.engine import Deployments
from tests.handlers.support.judging import Deeds, clusters, live

CHANGING = {"UpdateCluster", "AddTags", "DeleteTags"}
UPDATE = ("more workers", "new group", "other tags")
# Numbers of calls; `test_every_call_is_covered` compares them with the calls that are made.
CREATE_CALLS, UPDATE_CALLS, ROLLBACK_CALLS, DELETE_CALLS = 3, 9, 17, 4


def test_every_call_of_a_creation_is_covered(stacks: Deployments, bench: HyperPodBench) -> None:
    stacks.deploy(edited(bench, ()))
    assert stacks.framework.calls[:CREATE_CALLS] == ["DescribeStacks", "CreateCluster", "DescribeCluster"]


def test_every_call_is_covered(running: Deployments, bench: HyperPodBench) -> None:
    calls = running.framework.calls
    running.deploy(edited(bench, UPDATE))
    assert calls[:UPDATE_CALLS] == [
        *("DescribeCluster", "ListTags", "DescribeStacks", REGISTRATION),
        *("ListClusterNodes", "UpdateCluster", "AddTags", "DeleteTags"),
        "DescribeCluster",  # from is_complete
    ]
    calls.clear()
    running.delete()
    assert calls[:DELETE_CALLS] == ["DescribeCluster", "ListTags", "DescribeStacks", "DeleteCluster"]


def test_every_call_of_a_rollback_is_covered(running: Deployments, bench: HyperPodBench) -> None:
    running.deploy(edited(bench, UPDATE), fails_later=True, on_failure="DO_NOTHING")
    running.framework.calls.clear()
    running.continue_rollback()
    assert len(running.framework.calls) == ROLLBACK_CALLS
    assert running.framework.calls[-4:] == [
        *("DescribeCluster", "ListTags", "DescribeStacks", FORGETTING)  # what the update found and added
    ]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(CREATE_CALLS))
def test_create_whose_handler_dies_at_any_call_leaves_nothing(
    stacks: Deployments, bench: HyperPodBench, call: int, *, after: bool
) -> None:
    stacks.framework.kill(call, after=after)
    assert stacks.deploy(edited(bench, ())) == "ROLLBACK_COMPLETE"
    assert "Task timed out" in stacks.reasons()[0]
    assert clusters(bench) == []


def test_cluster_that_is_not_listed_yet_is_removed_with_the_failed_creation(
    stacks: Deployments, bench: HyperPodBench
) -> None:
    """The handler was killed after CreateCluster, and the guard looks before the new cluster is visible."""
    bench.fault(lag_minutes=0.4)
    stacks.framework.kill(CREATE_CALLS - 2, after=True)
    assert stacks.deploy(edited(bench, ())) == "ROLLBACK_COMPLETE"
    assert stacks.framework.calls.count("CreateCluster") == 1
    bench.advance(60)
    assert clusters(bench) == []


@pytest.mark.parametrize("on_failure", ["ROLLBACK", "DO_NOTHING"])
def test_cluster_that_is_not_known_yet_is_deleted_by_its_own_delete(
    stacks: Deployments, bench: HyperPodBench, on_failure: str
) -> None:
    """The handler was killed at its first poll, so CloudFormation knows the cluster's name."""
    bench.fault(lag_minutes=0.4)
    stacks.framework.kill(CREATE_CALLS - 1, after=False)
    stacks.deploy(edited(bench, ()), on_failure=on_failure)
    if on_failure == "DO_NOTHING":
        assert stacks.delete() == "DELETE_COMPLETE"
    bench.advance(60)
    assert clusters(bench) == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(UPDATE_CALLS))
def test_update_whose_handler_dies_at_any_call_is_taken_back(
    running: Deployments, bench: HyperPodBench, call: int, *, after: bool
) -> None:
    before = live(bench)
    running.framework.kill(call, after=after)
    assert running.deploy(edited(bench, UPDATE)) == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(ROLLBACK_CALLS))
def test_rollback_whose_handler_dies_at_any_call_can_be_continued(
    running: Deployments, bench: HyperPodBench, call: int, *, after: bool
) -> None:
    before = live(bench)
    assert running.deploy(edited(bench, UPDATE), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    running.framework.kill(call, after=after)
    assert running.continue_rollback() == "UPDATE_ROLLBACK_FAILED"
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(DELETE_CALLS))
def test_delete_whose_handler_dies_at_any_call_can_be_tried_again(
    running: Deployments, bench: HyperPodBench, call: int, *, after: bool
) -> None:
    running.framework.kill(call, after=after)
    assert running.delete() == "DELETE_FAILED"
    assert running.delete() == "DELETE_COMPLETE"
    assert clusters(bench) == []


@pytest.mark.parametrize(
    "edits",
    [UPDATE, ("workers renamed", "removal confirmed"), ("no workers", "removal confirmed"), ("no recovery",)],
    ids=lambda edits: edits[0],
)
def test_accepted_update_is_taken_back_when_a_later_resource_fails(
    running: Deployments, bench: HyperPodBench, edits: tuple[str, ...]
) -> None:
    before = live(bench)
    assert running.deploy(edited(bench, edits), fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
    assert {group["InstanceGroupName"]: group for group in live(bench)["groups"]} == {
        group["InstanceGroupName"]: group for group in before["groups"]
    }


@pytest.mark.parametrize(
    "edit", ["other type", "two threads", "own network", "other name", "typing error", "no workers", "not continuous"]
)
def test_refused_update_is_taken_back_without_a_call_that_changes(
    running: Deployments, bench: HyperPodBench, edit: str
) -> None:
    assert running.deploy(edited(bench, [edit])) == "UPDATE_ROLLBACK_COMPLETE"
    assert not CHANGING & set(running.framework.calls)


def test_rollback_waits_for_deep_health_checks(running: Deployments, bench: HyperPodBench) -> None:
    before = live(bench)
    properties = edited(bench, ())
    properties["InstanceGroups"].append(
        bench.group("checked", "ml.g5.2xlarge", 1, OnStartDeepHealthChecks=["InstanceStress"])
    )
    assert running.deploy(properties, fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    bench.advance(40)
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


def test_rollback_that_the_checks_outlast_says_so_and_can_be_continued(
    running: Deployments, bench: HyperPodBench
) -> None:
    properties = edited(bench, ())
    properties["InstanceGroups"].append(
        bench.group("checked", "ml.g5.2xlarge", 1, OnStartDeepHealthChecks=["InstanceStress"])
    )
    running.deploy(properties, fails_later=True, on_failure="DO_NOTHING")
    bench.advance(18)
    assert running.continue_rollback() == "UPDATE_ROLLBACK_FAILED"
    [reason] = [reason for reason in running.reasons() if "has not ended" in reason]
    assert (
        "Update of ml-cluster has not ended after 50 minutes, and CloudFormation's one-hour limit is near: "
        "1 of its nodes are in deep health checks (checked). Try again afterwards"
    ) in reason
    bench.advance(30)
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"


@pytest.mark.parametrize("edits", [("more workers",), ("new group",), ("other tags",)], ids=lambda edits: edits[0])
def test_cluster_of_a_create_that_failed_is_made_what_the_next_create_asks_for(
    stacks: Deployments, deeds: Deeds, bench: HyperPodBench, edits: tuple[str, ...]
) -> None:
    """The handler was killed after CreateCluster, nothing was rolled back, and the template was changed."""
    deeds.drift = True
    stacks.framework.kill(0, after=True)
    assert stacks.deploy(edited(bench, ()), on_failure="DO_NOTHING") == "CREATE_FAILED"
    bench.advance(60)
    assert stacks.deploy(wanted := edited(bench, edits), on_failure="DO_NOTHING") == "UPDATE_COMPLETE"
    groups = {group["InstanceGroupName"]: group["InstanceCount"] for group in strings(live(bench)["groups"])}
    assert groups == {group["InstanceGroupName"]: group["InstanceCount"] for group in strings(wanted["InstanceGroups"])}
    assert {tag["Key"]: tag["Value"] for tag in wanted["Tags"]}.items() <= live(bench)["tags"].items()


def test_crash_of_the_framework_is_survived_by_the_repeated_delivery(stacks: Deployments, bench: HyperPodBench) -> None:
    stacks.crashes = 2
    assert stacks.deploy(edited(bench, ())) == "CREATE_COMPLETE"
    assert [request["ResourceType"] for request in stacks.requests].count("Custom::HyperPodClusterTeardown") == 3


@pytest.mark.parametrize("fails_later", [False, True], ids=["carried out", "taken back"])
def test_guard_that_gets_another_logical_id_leaves_the_cluster_alone(
    running: Deployments, bench: HyperPodBench, *, fails_later: bool
) -> None:
    """The old guard's Delete comes at the end of the update, the new guard's at the end of the rollback."""
    before, machines = live(bench), set(bench.hyperpod.world.clusters["ml-cluster"].nodes)
    running.deploy(edited(bench, ()), guard="OtherTeardown", fails_later=fails_later)
    assert running.status == ("UPDATE_ROLLBACK_COMPLETE" if fails_later else "UPDATE_COMPLETE")
    bench.advance(60)
    assert live(bench) == before
    assert set(bench.hyperpod.world.clusters["ml-cluster"].nodes) == machines
    assert running.delete() == "DELETE_COMPLETE"
    assert clusters(bench) == []
