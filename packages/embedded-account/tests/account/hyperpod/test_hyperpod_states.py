"""Test that clusters change status like HyperPod's: asynchronously, and before their nodes if Continuous."""

from collections.abc import Callable
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench

Refusal = Callable[..., str]
NAME = {"ClusterName": "ml-cluster"}


def status(sagemaker: Any) -> str:
    return str(sagemaker.describe_cluster(**NAME)["ClusterStatus"])


def groups(sagemaker: Any) -> dict[str, Any]:
    return {group["InstanceGroupName"]: group for group in sagemaker.describe_cluster(**NAME)["InstanceGroups"]}


def nodes(sagemaker: Any, group: str = "") -> list[dict[str, Any]]:
    filters = {"InstanceGroupNameContains": group} if group else {}
    listed: list[dict[str, Any]] = sagemaker.list_cluster_nodes(**NAME, **filters)["ClusterNodeSummaries"]
    return listed


def errors(sagemaker: Any) -> list[dict[str, Any]]:
    """Return the EventMetadata of every event of level Error, the oldest first."""
    events = sagemaker.list_cluster_events(**NAME, SortOrder="Ascending")["Events"]
    return [
        sagemaker.describe_cluster_event(**NAME, EventId=event["EventId"])["EventDetails"]["EventDetails"][
            "EventMetadata"
        ]
        for event in events
        if event["EventLevel"] == "Error"
    ]


@pytest.fixture
def running(bench: HyperPodBench, sagemaker: Any) -> Any:
    """Return a client of an account with a cluster whose nodes all run."""
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=60)
    assert {node["InstanceStatus"]["Status"] for node in nodes(sagemaker)} == {"Running"}
    return sagemaker


def test_continuous_cluster_is_in_service_before_its_nodes(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request())
    assert status(sagemaker) == "Creating"
    bench.advance(minutes=6)
    assert status(sagemaker) == "InService"
    worker = groups(sagemaker)["worker-group-1"]
    assert (worker["CurrentCount"], worker["TargetCount"], worker["Status"]) == (0, 2, "Updating")
    assert {node["InstanceStatus"]["Status"] for node in nodes(sagemaker)} == {"Pending"}
    bench.advance(minutes=15)
    worker = groups(sagemaker)["worker-group-1"]
    assert (worker["CurrentCount"], worker["TargetCount"], worker["Status"]) == (2, 2, "InService")


def test_cluster_without_continuous_provisioning_is_in_service_when_every_node_runs(
    bench: HyperPodBench, sagemaker: Any
) -> None:
    request = bench.request()
    del request["NodeProvisioningMode"]
    sagemaker.create_cluster(**request)
    bench.advance(minutes=10)
    assert (status(sagemaker), len(nodes(sagemaker))) == ("Creating", 3)
    bench.advance(minutes=15)
    assert status(sagemaker) == "InService"


def test_failing_creation_without_continuous_provisioning_ends_in_failed(
    bench: HyperPodBench, sagemaker: Any, refusal: Refusal
) -> None:
    bench.client("s3").delete_object(Bucket="sagemaker-scripts", Key="eks/on_create.sh")
    request = bench.request()
    del request["NodeProvisioningMode"]
    sagemaker.create_cluster(**request)
    bench.advance(minutes=60)
    cluster = sagemaker.describe_cluster(**NAME)
    assert cluster["ClusterStatus"] == "Failed"
    assert "s3://sagemaker-scripts/eks/on_create.sh does not exist" in cluster["FailureMessage"]
    assert nodes(sagemaker) == []
    assert "can only be deleted" in refusal("ValidationException", sagemaker.update_cluster, **NAME)
    sagemaker.delete_cluster(**NAME)


def test_creation_fails_on_demand(bench: HyperPodBench, sagemaker: Any) -> None:
    bench.fault(fail_creation="the network is wrong")
    sagemaker.create_cluster(**bench.request())
    assert status(sagemaker) == "Creating"
    bench.advance(minutes=10)
    assert sagemaker.describe_cluster(**NAME)["FailureMessage"] == "the network is wrong"


def test_capacity_shortage_shows_in_events_and_leaves_the_cluster_in_service(
    bench: HyperPodBench, sagemaker: Any
) -> None:
    bench.fault(capacity={"ml.p5.48xlarge": 1})
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=25)
    worker = groups(sagemaker)["worker-group-1"]
    assert (status(sagemaker), worker["CurrentCount"], worker["Status"]) == ("InService", 1, "Degraded")
    scaling = errors(sagemaker)[0]["InstanceGroupScaling"]
    assert scaling["TargetCount"] == 2
    assert scaling["FailureMessage"].startswith("We currently do not have sufficient ml.p5.48xlarge capacity")
    assert "usw2-az2" in scaling["FailureMessage"]


def test_group_fills_automatically_when_capacity_becomes_available(bench: HyperPodBench, sagemaker: Any) -> None:
    bench.fault(capacity={"ml.p5.48xlarge": 1})
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=60)
    bench.fault(capacity={"ml.p5.48xlarge": None})
    bench.advance(minutes=60)
    assert groups(sagemaker)["worker-group-1"]["Status"] == "InService"


def test_instance_types_are_tried_by_priority(bench: HyperPodBench, sagemaker: Any) -> None:
    group = bench.group("g", "", 2)
    del group["InstanceType"]
    group["InstanceRequirements"] = {"InstanceTypes": ["ml.p5.48xlarge", "ml.p4d.24xlarge"]}
    bench.fault(capacity={"ml.p5.48xlarge": 1})
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=30)
    assert [node["InstanceType"] for node in nodes(sagemaker)] == ["ml.p5.48xlarge", "ml.p4d.24xlarge"]


def test_full_subnet_stops_a_group(bench: HyperPodBench, sagemaker: Any) -> None:
    small = bench.client("ec2").create_subnet(VpcId=bench.vpc_id, CidrBlock="10.0.128.0/25")["Subnet"]["SubnetId"]
    vpc_config = {"SecurityGroupIds": [bench.security_group_id], "Subnets": [small]}
    sagemaker.create_cluster(**bench.request(VpcConfig=vpc_config))
    bench.advance(minutes=30)
    assert groups(sagemaker)["worker-group-1"]["CurrentCount"] == 1
    assert "does not have enough free addresses" in errors(sagemaker)[0]["InstanceGroupScaling"]["FailureMessage"]


def test_minimum_that_is_not_reached_rolls_the_target_back(bench: HyperPodBench, sagemaker: Any) -> None:
    bench.fault(capacity={"ml.p5.48xlarge": 1})
    group = bench.group("g", "ml.p5.48xlarge", 3, MinInstanceCount=2)
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=200)
    found = groups(sagemaker)["g"]
    assert (found["TargetCount"], found["CurrentCount"]) == (0, 0)
    assert "MinInstanceCount 2 was not reached" in errors(sagemaker)[-1]["InstanceGroupScaling"]["FailureMessage"]


def test_update_scales_in_place(bench: HyperPodBench, running: Any) -> None:
    before = {node["InstanceId"] for node in nodes(running)}
    running.update_cluster(**NAME, InstanceGroups=[bench.group("worker-group-1", "ml.p5.48xlarge", 3)])
    assert status(running) == "Updating"
    bench.advance(minutes=2)
    assert status(running) == "InService"
    bench.advance(minutes=20)
    assert groups(running)["worker-group-1"]["CurrentCount"] == 3
    assert before < {node["InstanceId"] for node in nodes(running)}
    running.update_cluster(**NAME, InstanceGroups=[bench.group("worker-group-1", "ml.p5.48xlarge", 0)])
    bench.advance(minutes=20)
    assert [node["InstanceGroupName"] for node in nodes(running)] == ["head-group"]


def test_update_leaves_groups_that_it_does_not_name(bench: HyperPodBench, running: Any) -> None:
    running.update_cluster(**NAME, InstanceGroups=[bench.group("extra", "ml.m5.xlarge", 1)])
    bench.advance(minutes=30)
    assert {name: group["CurrentCount"] for name, group in groups(running).items()} == {
        "head-group": 1,
        "worker-group-1": 2,
        "extra": 1,
    }


def test_group_is_deleted_only_by_name(bench: HyperPodBench, running: Any) -> None:
    running.update_cluster(**NAME, InstanceGroupsToDelete=["worker-group-1"])
    assert groups(running)["worker-group-1"]["Status"] == "Deleting"
    bench.advance(minutes=30)
    assert list(groups(running)) == ["head-group"]
    assert len(bench.eks.nodes) == 1


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"InstanceType": "ml.p4d.24xlarge"}, "InstanceType"),
        ({"ThreadsPerCore": 2}, "ThreadsPerCore"),
        ({"ExecutionRole": "another"}, "ExecutionRole"),
        ({"OverrideVpcConfig": "own"}, "OverrideVpcConfig"),
        ({"CapacityRequirements": {"Spot": {}}}, "CapacityRequirements"),
    ],
)
def test_update_cannot_change_what_a_group_is(
    bench: HyperPodBench, running: Any, refusal: Refusal, members: dict[str, Any], field: str
) -> None:
    if field == "ExecutionRole":
        members = {field: bench.role("another", service="sagemaker.amazonaws.com")}
    if field == "OverrideVpcConfig":
        members = {field: bench.request()["VpcConfig"]}
    group = bench.group("worker-group-1", "ml.p5.48xlarge", 2) | members
    text = refusal("ValidationException", running.update_cluster, **NAME, InstanceGroups=[group])
    assert text.startswith(f"Instance group worker-group-1: {field} cannot be changed")


def test_omitted_threads_per_core_are_reset(bench: HyperPodBench, sagemaker: Any) -> None:
    group = bench.group("g", "ml.m5.2xlarge", 1, ThreadsPerCore=2)
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=30)
    del group["ThreadsPerCore"]
    group["InstanceCount"] = 2
    sagemaker.update_cluster(**NAME, InstanceGroups=[group])
    bench.advance(minutes=30)
    assert groups(sagemaker)["g"]["ThreadsPerCore"] == 1
    cpus = sorted(node.allocatable["cpu"] for node in bench.eks.nodes.values())
    assert cpus == ["3920m", "7910m"]


def test_unknown_group_to_delete_is_refused(running: Any, refusal: Refusal) -> None:
    text = refusal("ValidationException", running.update_cluster, **NAME, InstanceGroupsToDelete=["gone"])
    assert "do not exist: gone" in text


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"TieredStorageConfig": {"Mode": "Enable"}}, "cannot be updated alone"),
        (
            {
                "TieredStorageConfig": {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 19},
                "NodeRecovery": "None",
            },
            "must be between 20 and 100",
        ),
    ],
    ids=["alone", "too little"],
)
def test_tiered_storage_that_the_service_does_not_take_is_refused(
    running: Any, refusal: Refusal, fields: dict[str, Any], reason: str
) -> None:
    assert reason in refusal("ValidationException", running.update_cluster, **NAME, **fields)


def test_orchestrator_cannot_be_changed(bench: HyperPodBench, running: Any, refusal: Refusal) -> None:
    other = {"Eks": {"ClusterArn": bench.add_eks_cluster("other")}}
    text = refusal("ValidationException", running.update_cluster, **NAME, Orchestrator=other)
    assert "orchestrator of a cluster cannot be changed" in text


def test_busy_cluster_takes_no_change(bench: HyperPodBench, running: Any, refusal: Refusal) -> None:
    running.update_cluster(**NAME, NodeRecovery="None")
    assert "is in status Updating" in refusal("ConflictException", running.update_cluster, **NAME)
    assert "status Updating" in refusal("ConflictException", running.delete_cluster, **NAME)
    assert "status Updating" in refusal("ConflictException", running.update_cluster_software, **NAME)
    bench.advance(minutes=2)
    running.delete_cluster(**NAME)
    assert "status Deleting" in refusal("ConflictException", running.delete_cluster, **NAME)
    assert "is in status Deleting" in refusal("ConflictException", running.update_cluster, **NAME)


def test_cluster_that_is_being_created_takes_no_change(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    sagemaker.create_cluster(**bench.request())
    refusal("ConflictException", sagemaker.update_cluster, **NAME)
    refusal("ConflictException", sagemaker.delete_cluster, **NAME)


def test_deep_health_checks_block_updates_but_not_deletion(
    bench: HyperPodBench, sagemaker: Any, refusal: Refusal
) -> None:
    group = bench.group("g", "ml.p5.48xlarge", 2, OnStartDeepHealthChecks=["InstanceStress", "InstanceConnectivity"])
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=30)
    assert {node["InstanceStatus"]["Status"] for node in nodes(sagemaker)} == {"DeepHealthCheckInProgress"}
    text = refusal("ConflictException", sagemaker.update_cluster, **NAME)
    assert "2 instances in status DeepHealthCheckInProgress" in text
    sagemaker.delete_cluster(**NAME)


def test_update_without_continuous_provisioning_rolls_back(bench: HyperPodBench, sagemaker: Any) -> None:
    request = bench.request()
    del request["NodeProvisioningMode"]
    sagemaker.create_cluster(**request)
    bench.advance(minutes=60)
    bench.fault(capacity={"ml.p5.48xlarge": 3})
    sagemaker.update_cluster(
        **NAME,
        InstanceGroups=[
            bench.group("worker-group-1", "ml.p5.48xlarge", 4),
            bench.group("extra", "ml.m5.xlarge", 1),
        ],
    )
    bench.advance(minutes=2)
    assert status(sagemaker) == "RollingBack"
    bench.advance(minutes=60)
    assert status(sagemaker) == "InService"
    assert {name: group["TargetCount"] for name, group in groups(sagemaker).items()} == {
        "head-group": 1,
        "worker-group-1": 2,
    }
    assert len(nodes(sagemaker)) == 3


def test_rolled_back_update_keeps_what_it_would_have_removed(bench: HyperPodBench, running: Any) -> None:
    labelled = bench.group("head-group", "ml.m5.2xlarge", 1, KubernetesConfig={"Labels": {"team": "vision"}})
    running.update_cluster(**NAME, InstanceGroups=[labelled], NodeRecovery="None")
    bench.advance(minutes=60)
    bench.fault(fail_update="No capacity.")
    running.update_cluster(
        **NAME,
        InstanceGroups=[bench.group("head-group", "ml.m5.2xlarge", 1)],
        InstanceGroupsToDelete=["worker-group-1"],
        NodeRecovery="Automatic",
    )
    assert status(running) == "Updating"
    bench.advance(minutes=2)
    assert status(running) == "RollingBack"
    bench.advance(minutes=60)
    assert status(running) == "InService"
    assert errors(running)[-1]["Cluster"]["FailureMessage"] == "No capacity."
    assert running.describe_cluster(**NAME)["NodeRecovery"] == "None"
    assert groups(running)["head-group"]["KubernetesConfig"]["DesiredLabels"] == {"team": "vision"}
    assert len(nodes(running, "worker-group-1")) == 2


def test_rolled_back_update_restores_no_group_that_an_earlier_one_removes(bench: HyperPodBench, running: Any) -> None:
    [head] = [each for each in bench.request()["InstanceGroups"] if each["InstanceGroupName"] == "head-group"]
    running.update_cluster(**NAME, InstanceGroups=[head], InstanceGroupsToDelete=["worker-group-1"])
    bench.advance(minutes=2)
    assert groups(running)["worker-group-1"]["Status"] == "Deleting"
    bench.fault(fail_update="No capacity.")
    running.update_cluster(**NAME, InstanceGroups=[head], NodeRecovery="None")
    bench.advance(minutes=60)
    assert groups(running).keys() == {"head-group"}


def test_failed_deletion_shows_its_reason_and_can_be_retried(bench: HyperPodBench, running: Any) -> None:
    bench.fault(fail_deletion="Network interfaces are in use.")
    running.delete_cluster(**NAME)
    bench.advance(minutes=10)
    cluster = running.describe_cluster(**NAME)
    assert (cluster["ClusterStatus"], cluster["FailureMessage"]) == ("Failed", "Network interfaces are in use.")
    running.delete_cluster(**NAME)
    bench.advance(minutes=60)
    assert running.list_clusters()["ClusterSummaries"] == []


def test_new_cluster_is_unknown_while_reads_lag(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    bench.fault(lag_minutes=4)
    arn = sagemaker.create_cluster(**bench.request())["ClusterArn"]
    bench.advance(minutes=3)
    refusal("ResourceNotFound", sagemaker.describe_cluster, **NAME)
    refusal("ValidationException", sagemaker.list_tags, ResourceArn=arn)
    refusal("ResourceInUse", sagemaker.create_cluster, **bench.request())
    assert sagemaker.list_clusters()["ClusterSummaries"] == []
    bench.advance(minutes=1)
    assert status(sagemaker) == "Creating"
    assert [cluster["ClusterName"] for cluster in sagemaker.list_clusters()["ClusterSummaries"]] == ["ml-cluster"]


def test_lagging_reads_show_a_cluster_and_its_tags_as_they_were(bench: HyperPodBench, running: Any) -> None:
    arn = running.describe_cluster(**NAME)["ClusterArn"]
    bench.fault(lag_minutes=4)
    running.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "vision"}])
    bench.advance(minutes=2)
    running.update_cluster(**NAME, InstanceGroups=[bench.group("worker-group-1", "ml.p5.48xlarge", 3)])
    assert (status(running), running.list_tags(ResourceArn=arn)["Tags"]) == ("InService", [])
    bench.advance(minutes=3)
    assert running.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "vision"}]
    assert groups(running)["worker-group-1"]["TargetCount"] == 2
    bench.advance(minutes=3)
    assert groups(running)["worker-group-1"]["TargetCount"] == 3


def test_group_without_an_image_shows_the_default_one(bench: HyperPodBench, running: Any) -> None:
    own = bench.group("head-group", "ml.m5.2xlarge", 1, ImageId="ami-0123456789abcdef0")
    default = groups(running)["head-group"]["DesiredImageId"]
    for wanted, shown in ((own, own["ImageId"]), (own | {"ImageId": "default"}, default)):
        running.update_cluster(**NAME, InstanceGroups=[wanted])
        bench.advance(minutes=60)
        assert groups(running)["head-group"]["DesiredImageId"] == shown


def test_software_update_keeps_ids_and_runs_the_scripts_again(bench: HyperPodBench, running: Any) -> None:
    before = {node["InstanceId"] for node in nodes(running)}
    running.update_cluster_software(**NAME)
    assert status(running) == "SystemUpdating"
    assert {node["InstanceStatus"]["Status"] for node in nodes(running)} == {"SystemUpdating"}
    bench.advance(minutes=45)
    assert status(running) == "InService"
    assert {node["InstanceId"] for node in nodes(running)} == before
    assert groups(running)["worker-group-1"]["SoftwareUpdateStatus"] == "Succeeded"


def test_software_update_fails_with_its_scripts(bench: HyperPodBench, running: Any) -> None:
    bench.client("s3").delete_object(Bucket="sagemaker-scripts", Key="eks/on_create.sh")
    running.update_cluster_software(**NAME, InstanceGroups=[{"InstanceGroupName": "head-group"}])
    bench.advance(minutes=45)
    assert groups(running)["head-group"]["SoftwareUpdateStatus"] == "Failed"
    assert status(running) == "InService"


def test_deletion_removes_everything_but_logs_and_the_service_linked_role(
    bench: HyperPodBench, running: Any, refusal: Refusal
) -> None:
    running.delete_cluster(**NAME)
    assert status(running) == "Deleting"
    assert {node["InstanceStatus"]["Status"] for node in nodes(running)} == {"ShuttingDown"}
    bench.advance(minutes=30)
    refusal("ResourceNotFound", running.describe_cluster, **NAME)
    assert (bench.eks.nodes, bench.eks.access_entries) == ({}, {"eks": {}})
    assert {made.kind for made in bench.background.all()} == {"iam-role", "log-group"}
    running.create_cluster(**bench.request())


def test_network_interfaces_remain_if_eks_is_deleted_first(
    bench: HyperPodBench, running: Any, refusal: Refusal
) -> None:
    del bench.eks.clusters["eks"]
    running.delete_cluster(**NAME)
    bench.advance(minutes=30)
    refusal("ResourceNotFound", running.describe_cluster, **NAME)
    assert sum(made.kind == "network-interface" for made in bench.background.all()) == 3


def test_operation_shows_when_scaling_is_done(bench: HyperPodBench, sagemaker: Any) -> None:
    def latest() -> Any:
        return sagemaker.list_cluster_operations(**NAME)["ClusterOperationSummaries"][0]

    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=10)
    first = latest()
    assert (first["Type"], first["Status"]) == ("Scaling", "InProgress")
    sagemaker.update_cluster(**NAME, InstanceGroups=[bench.group("head-group", "ml.m5.2xlarge", 2)])
    described = sagemaker.describe_cluster_operation(**NAME, OperationId=first["OperationId"])
    assert described["Status"] == "Superseded"
    bench.advance(minutes=60)
    described = sagemaker.describe_cluster_operation(**NAME, OperationId=latest()["OperationId"])
    head = next(each for each in described["ScalingDetails"] if each["InstanceGroupName"] == "head-group")
    assert (described["Status"], head["Desired"]["TargetCount"]) == ("Done", 2)


def test_history_does_not_depend_on_how_often_the_clock_is_read(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request())
    for _ in range(30):
        bench.advance(minutes=1)
    launched = {node["LaunchTime"] for node in nodes(sagemaker)}
    events = sagemaker.list_cluster_events(**NAME, SortOrder="Ascending")["Events"]
    created = events[0]["EventTime"]
    assert {(time - created).total_seconds() for time in launched} == {300}
    assert [(event["EventTime"] - created).total_seconds() for event in events] == [0, 300, 300, 300, *[1200] * 3]


def test_events_need_continuous_provisioning(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    request = bench.request()
    del request["NodeProvisioningMode"]
    sagemaker.create_cluster(**request)
    text = refusal("ValidationException", sagemaker.list_cluster_events, **NAME)
    assert "NodeProvisioningMode Continuous only" in text
