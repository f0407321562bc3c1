"""CloudFormation's way back, through the real engine: from every intermediate state, and over older properties."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.changing import edited
from tests.handlers.engine import Deployments
from tests.handlers.framework import REGISTRATION, CloudFormation, Properties, strings
from tests.handlers.judging import Deeds, clusters, live

CHANGING = {"UpdateCluster", "AddTags", "DeleteTags"}
UPDATE = ("more workers", "new group", "other tags")
# Calls of each: `test_every_call_is_covered` holds these figures to what is really called.
CREATE_CALLS, UPDATE_CALLS, ROLLBACK_CALLS, DELETE_CALLS = 3, 9, 18, 3


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
    assert calls[:DELETE_CALLS] == ["DescribeCluster", "ListTags", "DeleteCluster"]


def test_every_call_of_a_rollback_is_covered(running: Deployments, bench: HyperPodBench) -> None:
    running.deploy(edited(bench, UPDATE), fails_later=True, on_failure="DO_NOTHING")
    running.framework.calls.clear()
    running.continue_rollback()
    assert len(running.framework.calls) == ROLLBACK_CALLS
    assert running.framework.calls[-2:] == ["ListTags", "DeleteTags"]  # the note of what the update added


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
    """Its handler was killed after the call, and the guard looks before the new cluster can be seen."""
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
    """Its waiter was killed at its first look: CloudFormation knows the cluster's name."""
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
        "Update of ml-cluster has not ended after 50 minutes, and CloudFormation waits no longer: "
        "1 of its nodes are in deep health checks (checked). Try again when that is over"
    ) in reason
    bench.advance(30)
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"


def make_by_hand(bench: HyperPodBench, deeds: Deeds, *names: str) -> None:
    """Groups that somebody made in the console, with nodes that run; without a name one."""
    deeds.drift = True
    made = [bench.group(name, "ml.g5.2xlarge", 1) for name in names or ["by-hand"]]
    groups = [*edited(bench, ())["InstanceGroups"], *made]
    bench.client("sagemaker").update_cluster(ClusterName="ml-cluster", InstanceGroups=groups)
    bench.advance(60)


@pytest.mark.parametrize("earlier", [False, True], ids=["", "after it was taken back once"])
@pytest.mark.parametrize("how", ["wrong type", "typing error", "fails later"])
def test_rollback_keeps_a_group_that_the_failed_update_took_over(
    running: Deployments, deeds: Deeds, bench: HyperPodBench, how: str, *, earlier: bool
) -> None:
    """It was there before, with somebody's work: the failed update names it, and has not added it."""
    named = edited(bench, ["typing error"] if how == "typing error" else [])
    kind = "ml.g5.4xlarge" if how == "wrong type" else "ml.g5.2xlarge"
    named["InstanceGroups"].append(bench.group("by-hand", kind, 1))
    if earlier:
        assert running.deploy(named, fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
        bench.advance(60)
    make_by_hand(bench, deeds)
    assert running.deploy(named, fails_later=how == "fails later") == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"


def test_rollback_removes_a_group_whose_removal_the_old_template_confirms(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    consenting = edited(bench, ()) | {"ConfirmGroupRemoval": ["by-hand"]}
    assert running.deploy(consenting) == "UPDATE_COMPLETE"
    make_by_hand(bench, deeds, "by-hand", "theirs")
    assert running.deploy(edited(bench, ["typing error"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]] == ["head-group", "worker-group-1", "theirs"]


def more(bench: HyperPodBench, *names: str) -> Properties:
    """Properties with these groups more."""
    properties = edited(bench, ())
    properties["InstanceGroups"] += [bench.group(name, "ml.g5.2xlarge", 1) for name in names]
    return properties


@pytest.mark.parametrize("second", [("one", "two"), ("two",)], ids=["both", "the second only"])
def test_rollback_of_a_chain_of_failed_updates_removes_what_each_of_them_added(
    running: Deployments, bench: HyperPodBench, second: tuple[str, ...]
) -> None:
    before = live(bench)
    assert running.deploy(more(bench, "one"), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert running.deploy(more(bench, *second), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


def test_rollback_removes_an_added_group_whose_removal_a_refused_update_confirmed(
    running: Deployments, bench: HyperPodBench
) -> None:
    before = live(bench)
    assert running.deploy(more(bench, "more"), fails_later=True, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    refused = edited(bench, ["removal confirmed", "typing error"])
    assert running.deploy(refused, on_failure="DO_NOTHING") == "UPDATE_FAILED"
    assert running.continue_rollback() == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


def test_rollback_removes_an_added_group_whose_namesake_was_still_going(
    stacks: Deployments, bench: HyperPodBench
) -> None:
    assert stacks.deploy(more(bench, "more")) == "CREATE_COMPLETE"
    bench.advance(60)
    assert stacks.deploy(edited(bench, ["removal confirmed"])) == "UPDATE_COMPLETE"
    assert stacks.deploy(edited(bench, ())) == "UPDATE_COMPLETE"  # which consents to nothing any more
    assert bench.hyperpod.world.clusters["ml-cluster"].groups["more"].deleting
    before = live(bench)
    assert stacks.deploy(more(bench, "more"), fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
    assert live(bench) == before


def test_rollback_keeps_a_group_that_is_named_as_one_of_an_earlier_failed_update(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    """The note of what that update added went with its rollback."""
    assert running.deploy(more(bench, "by-hand"), fails_later=True) == "UPDATE_ROLLBACK_COMPLETE"
    bench.advance(60)
    make_by_hand(bench, deeds)
    running.framework.kill(0, after=True)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"


def test_rollback_keeps_a_group_that_is_named_as_one_that_an_update_added_and_another_removed(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    assert running.deploy(more(bench, "by-hand")) == "UPDATE_COMPLETE"
    bench.advance(60)
    assert running.deploy(edited(bench, ["removal confirmed"])) == "UPDATE_COMPLETE"
    bench.advance(60)
    assert running.deploy(edited(bench, ())) == "UPDATE_COMPLETE"
    make_by_hand(bench, deeds)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"


def test_rollback_leaves_a_group_alone_that_neither_template_has(
    running: Deployments, deeds: Deeds, bench: HyperPodBench
) -> None:
    make_by_hand(bench, deeds)
    assert running.deploy(edited(bench, ["more workers"])) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Instance group by-hand of HyperPod cluster ml-cluster would be removed" in running.reasons()[0]
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]][-1] == "by-hand"


@pytest.mark.parametrize("edits", [("more workers",), ("new group",), ("other tags",)], ids=lambda edits: edits[0])
def test_cluster_of_a_create_that_failed_is_made_what_the_next_create_asks_for(
    stacks: Deployments, deeds: Deeds, bench: HyperPodBench, edits: tuple[str, ...]
) -> None:
    """Its handler died after the call, nothing was rolled back, and the environment's file was changed."""
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
    """Its Delete comes at the end of the update, the new guard's at the end of the rollback."""
    before, machines = live(bench), set(bench.hyperpod.world.clusters["ml-cluster"].nodes)
    running.deploy(edited(bench, ()), guard="OtherTeardown", fails_later=fails_later)
    assert running.status == ("UPDATE_ROLLBACK_COMPLETE" if fails_later else "UPDATE_COMPLETE")
    bench.advance(60)
    assert live(bench) == before
    assert set(bench.hyperpod.world.clusters["ml-cluster"].nodes) == machines
    assert running.delete() == "DELETE_COMPLETE"
    assert clusters(bench) == []


# --- older properties ------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["forward", "back"])
def test_property_that_one_version_lacks_is_read_from_the_other(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, direction: str
) -> None:
    cloudformation.create(properties)
    bench.advance(60)
    newer = deepcopy(properties) | {"ConfirmGroupRemoval": ["worker-group-1"]}
    del newer["InstanceGroups"][1]
    if direction == "forward":
        assert cloudformation.update("ml-cluster", newer, properties).succeeded
        return
    assert cloudformation.update("ml-cluster", newer, properties).succeeded
    assert cloudformation.roll_back("ml-cluster", properties, newer).succeeded
    assert [group["InstanceGroupName"] for group in live(bench)["groups"]] == ["head-group", "worker-group-1"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = ["InstanceGroups", "Tags", "NodeRecovery", "ClusterName", "Config", "ConfirmGroupRemoval", "VpcConfig"]


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=st.dictionaries(st.sampled_from(_NAMES), _json))
def test_old_properties_of_any_shape_disturb_neither_rollback_nor_delete(
    cloudformation: CloudFormation, properties: Properties, bench: HyperPodBench, old: dict[str, Any]
) -> None:
    bench.hyperpod.world.clusters.clear()
    cloudformation.create(properties)
    response = cloudformation.roll_back("ml-cluster", properties, strings(old))
    assert response.succeeded, response.reason
    assert cloudformation.delete("ml-cluster", strings(old)).succeeded
