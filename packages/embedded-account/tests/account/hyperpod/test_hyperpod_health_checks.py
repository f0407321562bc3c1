"""Test StartClusterHealthCheck, and the age of a group's platform software."""

from collections.abc import Callable
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.nodes import DEEP_CHECK_LABEL, HEALTH_LABEL, UNSCHEDULABLE_TAINT

Refusal = Callable[..., str]
NAME = {"ClusterName": "ml-cluster"}


def nodes(sagemaker: Any, group: str) -> dict[str, str]:
    listed = sagemaker.list_cluster_nodes(**NAME, InstanceGroupNameContains=group)["ClusterNodeSummaries"]
    return {node["InstanceId"]: node["InstanceStatus"]["Status"] for node in listed}


def checks(group: str, *instances: str) -> list[dict[str, Any]]:
    chosen = {"InstanceIds": list(instances)} if instances else {}
    return [{"InstanceGroupName": group, "DeepHealthChecks": ["InstanceStress"], **chosen}]


@pytest.fixture
def running(bench: HyperPodBench, sagemaker: Any) -> Any:
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=60)
    return sagemaker


def test_checked_node_takes_no_pods_until_it_has_passed(bench: HyperPodBench, running: Any) -> None:
    checked, other = nodes(running, "worker-group-1")
    running.start_cluster_health_check(**NAME, DeepHealthCheckConfigurations=checks("worker-group-1", checked))
    assert nodes(running, "worker-group-1") == {checked: "DeepHealthCheckInProgress", other: "Running"}
    node = bench.eks.nodes[f"hyperpod-{checked}"]
    assert (node.labels[DEEP_CHECK_LABEL], node.labels[HEALTH_LABEL]) == ("InProgress", "Unschedulable")
    assert node.taints == (UNSCHEDULABLE_TAINT,)
    bench.advance(minutes=60)
    node = bench.eks.nodes[f"hyperpod-{checked}"]
    assert (node.labels[DEEP_CHECK_LABEL], node.labels[HEALTH_LABEL], node.taints) == ("Passed", "Schedulable", ())
    assert nodes(running, "worker-group-1")[checked] == "Running"


def test_group_without_instances_is_checked_whole_and_a_failing_node_is_replaced(
    bench: HyperPodBench, running: Any
) -> None:
    before = nodes(running, "worker-group-1").keys()
    bench.fault(fail_deep_check={"group": "worker-group-1", "times": 1})
    running.start_cluster_health_check(**NAME, DeepHealthCheckConfigurations=checks("worker-group-1"))
    assert set(nodes(running, "worker-group-1").values()) == {"DeepHealthCheckInProgress"}
    bench.advance(minutes=120)
    after = nodes(running, "worker-group-1")
    assert (len(after), len(after.keys() & before)) == (2, 1)


@pytest.mark.parametrize(
    ("configurations", "complaint"),
    [
        (checks("nowhere"), "Instance group nowhere was not found"),
        (checks("head-group"), "Deep health checks do not support ml.m5.2xlarge"),
        (checks("worker-group-1", "i-00000000000000000"), "were not found in instance group worker-group-1"),
        (checks("worker-group-1") * 2, "listed twice"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    running: Any, refusal: Refusal, configurations: list[dict[str, Any]], complaint: str
) -> None:
    call = running.start_cluster_health_check
    assert complaint in refusal("ValidationException", call, **NAME, DeepHealthCheckConfigurations=configurations)
    assert set(nodes(running, "group").values()) == {"Running"}


def test_a_node_in_checks_is_not_checked_twice(running: Any, refusal: Refusal) -> None:
    checked = next(iter(nodes(running, "worker-group-1")))
    wanted = checks("worker-group-1", checked)
    call = running.start_cluster_health_check
    call(**NAME, DeepHealthCheckConfigurations=wanted)
    assert "not Running" in refusal("ValidationException", call, **NAME, DeepHealthCheckConfigurations=wanted)


def test_software_ages_on_demand_and_an_update_renews_it(bench: HyperPodBench, running: Any) -> None:
    def versions() -> list[str]:
        return [each["ImageVersionStatus"] for each in running.describe_cluster(**NAME)["InstanceGroups"]]

    assert versions() == ["UpToDate", "UpToDate"]
    bench.fault(image_version={"worker-group-1": "EndOfLife"})
    assert versions() == ["UpToDate", "EndOfLife"]
    running.update_cluster_software(**NAME)
    bench.advance(minutes=60)
    assert versions() == ["UpToDate", "UpToDate"]
