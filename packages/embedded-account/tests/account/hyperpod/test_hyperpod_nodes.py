"""Test that nodes join Kubernetes like HyperPod's nodes, and that their failures show where users look for them."""

from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.exceptions import BadRequest

from embedded_account.hyperpod.bench import ACCOUNT_ID, REGION, HyperPodBench
from embedded_account.hyperpod.nodes import DEEP_CHECK_LABEL, HEALTH_LABEL, UNSCHEDULABLE_TAINT, KubernetesNode

Refusal = Callable[..., str]
NAME = {"ClusterName": "ml-cluster"}


def nodes(sagemaker: Any, group: str = "") -> dict[str, str]:
    """Return the status of each node by id."""
    filters = {"InstanceGroupNameContains": group} if group else {}
    listed = sagemaker.list_cluster_nodes(**NAME, **filters)["ClusterNodeSummaries"]
    return {node["InstanceId"]: node["InstanceStatus"]["Status"] for node in listed}


def failures(sagemaker: Any) -> list[dict[str, Any]]:
    """Return the instance metadata of the events of level Error that have a reason."""
    found = []
    for event in sagemaker.list_cluster_events(**NAME, ResourceType="Instance")["Events"]:
        if event["EventLevel"] == "Error":
            detail = sagemaker.describe_cluster_event(**NAME, EventId=event["EventId"])["EventDetails"]
            found.append(detail["EventDetails"]["EventMetadata"]["Instance"])
    return [each for each in found if "FailureMessage" in each]


def of_group(bench: HyperPodBench, group: str) -> list[KubernetesNode]:
    key = "sagemaker.amazonaws.com/instance-group-name"
    return [node for node in bench.eks.nodes.values() if node.labels[key] == group]


@pytest.fixture
def running(bench: HyperPodBench, sagemaker: Any) -> Any:
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=60)
    return sagemaker


def test_node_carries_hyperpods_name_labels_and_capacity(bench: HyperPodBench, running: Any) -> None:
    instance_id = next(iter(nodes(running, "worker-group-1")))
    node = bench.eks.nodes[f"hyperpod-{instance_id}"]
    expected = {
        "sagemaker.amazonaws.com/cluster-name": "ml-cluster",
        "sagemaker.amazonaws.com/compute-type": "hyperpod",
        "sagemaker.amazonaws.com/instance-group-name": "worker-group-1",
        "sagemaker.amazonaws.com/node-health-status": "Schedulable",
        "node.kubernetes.io/instance-type": "ml.p5.48xlarge",
        "topology.kubernetes.io/zone": running.describe_cluster_node(**NAME, NodeId=instance_id)["NodeDetails"][
            "Placement"
        ]["AvailabilityZone"],
    }
    assert expected.items() <= node.labels.items()
    assert node.taints == ()
    assert (node.allocatable["nvidia.com/gpu"], node.allocatable["vpc.amazonaws.com/efa"]) == ("8", "32")
    assert node.allocatable["pods"] == "49"


def test_node_has_its_groups_own_labels_and_taints(bench: HyperPodBench, sagemaker: Any) -> None:
    config = {"Labels": {"team": "a"}, "Taints": [{"Key": "gpu", "Value": "yes", "Effect": "NoSchedule"}]}
    group = bench.group("g", "ml.p5.48xlarge", 1, KubernetesConfig=config)
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=30)
    (node,) = bench.eks.nodes.values()
    assert node.labels["team"] == "a"
    assert node.taints == ({"key": "gpu", "value": "yes", "effect": "NoSchedule"},)


def test_network_interface_is_held_until_the_node_is_gone(bench: HyperPodBench, running: Any) -> None:
    instance_id = next(iter(nodes(running, "worker-group-1")))
    holders = bench.background.holders(bench.subnet_id)
    assert len(holders) == 3
    interfaces = bench.client("ec2").describe_network_interfaces()["NetworkInterfaces"]
    (own,) = [each for each in interfaces if instance_id in each["Description"]]
    assert len(own["PrivateIpAddresses"]) == 81
    running.batch_delete_cluster_nodes(**NAME, NodeIds=[instance_id])
    assert len(bench.background.holders(bench.subnet_id)) == 3
    bench.advance(minutes=10)
    assert len(bench.background.holders(bench.subnet_id)) == 2


def test_scripts_have_a_log_stream_for_each_node(bench: HyperPodBench, running: Any) -> None:
    arn = running.describe_cluster(**NAME)["ClusterArn"]
    logs = bench.client("logs")
    streams = logs.describe_log_streams(logGroupName=f"/aws/sagemaker/Clusters/ml-cluster/{arn.rpartition('/')[2]}")
    names = {stream["logStreamName"] for stream in streams["logStreams"]}
    workers = {f"LifecycleConfig/worker-group-1/{each}" for each in nodes(running, "worker-group-1")}
    heads = {f"LifecycleConfig/head-group/{each}" for each in nodes(running, "head-group")}
    assert names == workers | heads


def test_deep_checks_taint_the_node_until_they_pass(bench: HyperPodBench, sagemaker: Any) -> None:
    group = bench.group("g", "ml.p5.48xlarge", 1, OnStartDeepHealthChecks=["InstanceStress"])
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=30)
    (node,) = bench.eks.nodes.values()
    assert (node.labels[DEEP_CHECK_LABEL], node.labels[HEALTH_LABEL]) == ("InProgress", "Unschedulable")
    assert node.taints == (UNSCHEDULABLE_TAINT,)
    bench.advance(minutes=60)
    (node,) = bench.eks.nodes.values()
    assert (node.labels[DEEP_CHECK_LABEL], node.labels[HEALTH_LABEL]) == ("Passed", "Schedulable")
    assert node.taints == ()


def test_node_that_fails_deep_checks_is_replaced(bench: HyperPodBench, sagemaker: Any) -> None:
    group = bench.group("g", "ml.p5.48xlarge", 1, OnStartDeepHealthChecks=["InstanceStress"])
    bench.fault(fail_deep_check={"group": "g", "times": 1})
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=30)
    (first,) = nodes(sagemaker)
    bench.advance(minutes=150)
    ((second, status),) = nodes(sagemaker).items()
    assert (second != first, status) == (True, "Running")
    assert failures(sagemaker)[0]["FailureMessage"] == "Deep health checks failed."


def test_faulty_gpu_node_is_labelled_then_replaced_by_a_new_one(bench: HyperPodBench, running: Any) -> None:
    before = nodes(running, "worker-group-1").keys()
    (failed,) = bench.fault(fail_node={"group": "worker-group-1", "reason": "NvidiaGpuXid_79"})["failed_nodes"]
    bench.advance(minutes=1)
    node = bench.eks.nodes[f"hyperpod-{failed}"]
    assert node.labels[HEALTH_LABEL] == "UnschedulablePendingReplacement"
    assert node.labels["sagemaker.amazonaws.com/fault-types"] == "NvidiaGpuXid_79"
    bench.advance(minutes=30)
    after = nodes(running, "worker-group-1")
    assert failed not in after
    assert len(after.keys() - before) == 1
    assert set(after.values()) == {"Running"}
    assert {f"hyperpod-{each}" for each in after} == {each.name for each in of_group(bench, "worker-group-1")}


def test_faulty_node_is_only_labelled_without_node_recovery(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request(NodeRecovery="None"))
    bench.advance(minutes=60)
    (failed,) = bench.fault(fail_node={"group": "worker-group-1"})["failed_nodes"]
    bench.advance(minutes=120)
    assert nodes(sagemaker)[failed] == "Running"
    assert bench.eks.nodes[f"hyperpod-{failed}"].labels[HEALTH_LABEL] == "UnschedulablePendingReplacement"


def test_dead_cpu_node_is_neither_labelled_nor_replaced(bench: HyperPodBench, running: Any) -> None:
    (failed,) = bench.fault(fail_node={"group": "head-group", "heartbeat": False})["failed_nodes"]
    bench.advance(minutes=240)
    assert bench.eks.silent == {f"hyperpod-{failed}"}
    assert nodes(running)[failed] == "Running"
    assert bench.eks.nodes[f"hyperpod-{failed}"].labels[HEALTH_LABEL] == "Schedulable"


def test_replacement_waits_for_capacity(bench: HyperPodBench, running: Any) -> None:
    bench.fault(capacity={"ml.p5.48xlarge": 1}, fail_node={"group": "worker-group-1"})
    bench.advance(minutes=60)
    assert len(nodes(running, "worker-group-1")) == 1
    bench.fault(clear=True)
    bench.advance(minutes=60)
    assert len(nodes(running, "worker-group-1")) == 2


def test_batch_replacement_works_for_cpu_nodes_too(bench: HyperPodBench, running: Any) -> None:
    (old,) = nodes(running, "head-group")
    answer = running.batch_replace_cluster_nodes(**NAME, NodeIds=[old, "i-00000000000000000"])
    assert answer["Successful"] == [old]
    assert answer["Failed"][0]["ErrorCode"] == "InstanceIdNotFound"
    bench.advance(minutes=60)
    (new,) = nodes(running, "head-group")
    assert new != old


def test_rebooted_node_keeps_its_id(bench: HyperPodBench, running: Any) -> None:
    (instance_id,) = nodes(running, "head-group")
    running.batch_reboot_cluster_nodes(**NAME, NodeIds=[instance_id])
    assert bench.eks.nodes[f"hyperpod-{instance_id}"].labels[HEALTH_LABEL] == "UnschedulablePendingReboot"
    bench.advance(minutes=5)
    assert bench.eks.nodes[f"hyperpod-{instance_id}"].labels[HEALTH_LABEL] == "Schedulable"
    assert list(nodes(running, "head-group")) == [instance_id]


def test_deleted_nodes_are_the_named_ones_and_lower_the_target(bench: HyperPodBench, running: Any) -> None:
    leaving, staying = nodes(running, "worker-group-1")
    answer = running.batch_delete_cluster_nodes(**NAME, NodeIds=[leaving, "i-00000000000000000"])
    assert (answer["Successful"], answer["Failed"][0]["Code"]) == ([leaving], "NodeIdNotFound")
    bench.advance(minutes=60)
    assert list(nodes(running, "worker-group-1")) == [staying]


@pytest.mark.parametrize("rule", ["ingress", "egress"])
def test_efa_health_check_needs_both_self_rules(bench: HyperPodBench, sagemaker: Any, rule: str) -> None:
    revoke = getattr(bench.client("ec2"), f"revoke_security_group_{rule}")
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": bench.security_group_id}]}]
    revoke(GroupId=bench.security_group_id, IpPermissions=itself)
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=25)
    assert {failure["FailureMessage"] for failure in failures(sagemaker)} == {
        "EFA health checks did not run successfully. Ensure that your VPC and security groups are properly configured "
        "before attempting to create a new cluster."
    }
    assert list(nodes(sagemaker, "head-group").values()) == ["Running"]
    assert of_group(bench, "worker-group-1") == []


def test_missing_script_fails_the_node_and_another_is_launched(bench: HyperPodBench, sagemaker: Any) -> None:
    s3 = bench.client("s3")
    s3.delete_object(Bucket="sagemaker-scripts", Key="eks/on_create.sh")
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=21)
    assert set(nodes(sagemaker).values()) == {"Failure"}
    failure = failures(sagemaker)[0]
    assert "Lifecycle scripts did not run successfully" in failure["FailureMessage"]
    assert "s3://sagemaker-scripts/eks/on_create.sh does not exist" in failure["FailureMessage"]
    assert failure["LcsExecutionState"] == "Failed"
    s3.put_object(Bucket="sagemaker-scripts", Key="eks/on_create.sh", Body=b"#!/bin/bash\n")
    bench.advance(minutes=60)
    assert set(nodes(sagemaker).values()) == {"Running"}


def test_script_fails_on_demand(bench: HyperPodBench, sagemaker: Any) -> None:
    bench.fault(fail_lifecycle={"group": "head-group", "times": 1})
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=21)
    assert list(nodes(sagemaker, "head-group").values()) == ["Failure"]
    bench.advance(minutes=60)
    assert list(nodes(sagemaker, "head-group").values()) == ["Running"]


@pytest.mark.parametrize(
    ("actions", "missing"),
    [
        (["ec2:Describe*", "s3:*"], "ec2:CreateNetworkInterface"),
        (["ec2:*", "s3:ListBucket"], "s3:GetObject"),
        (["ec2:*", "s3:GetObject"], "s3:ListBucket"),
    ],
)
def test_event_names_what_the_execution_role_lacks(
    bench: HyperPodBench, sagemaker: Any, actions: list[str], missing: str
) -> None:
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    role = bench.role("poor", policy, service="sagemaker.amazonaws.com")
    group = bench.group("g", "ml.m5.2xlarge", 1, ExecutionRole=role)
    sagemaker.create_cluster(**bench.request(InstanceGroups=[group]))
    bench.advance(minutes=25)
    events = sagemaker.list_cluster_events(**NAME)["Events"]
    details = [sagemaker.describe_cluster_event(**NAME, EventId=event["EventId"]) for event in events]
    assert f"is not authorized to perform: {missing}" in str(details)
    assert "Running" not in nodes(sagemaker).values()


def test_nodes_join_when_kubernetes_answers_again(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request())
    bench.eks.unavailable = True
    bench.advance(minutes=30)
    assert set(nodes(sagemaker).values()) == {"Pending"}
    bench.eks.unavailable = False
    bench.advance(minutes=2)
    assert set(nodes(sagemaker).values()) == {"Running"}


def test_access_entries_are_made_once_and_others_entries_stay(bench: HyperPodBench, sagemaker: Any) -> None:
    bench.eks.add_access_entry("eks", bench.execution_role, type="HYPERPOD_LINUX")
    sagemaker.create_cluster(**bench.request())
    entries = bench.eks.access_entries["eks"]
    assert [arn.rpartition("/")[2] for arn in entries] == ["execution", "AWSServiceRoleForSageMakerHyperPod"]
    bench.advance(minutes=60)
    sagemaker.delete_cluster(**NAME)
    bench.advance(minutes=60)
    assert list(bench.eks.access_entries["eks"]) == [bench.execution_role]


def test_node_that_cannot_reach_its_services_fails_with_the_reason(bench: HyperPodBench, sagemaker: Any) -> None:
    ec2 = bench.client("ec2")
    [main] = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [bench.vpc_id]}])["RouteTables"]
    ec2.delete_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0")
    sagemaker.create_cluster(**bench.request())
    bench.advance(30)
    messages = {failure["FailureMessage"] for failure in failures(sagemaker)}
    assert all(f"subnet {bench.subnet_id} has no route to ec2" in message for message in messages), messages
    assert messages


def test_plan_and_image_of_a_group_are_described_and_change_in_place(bench: HyperPodBench, sagemaker: Any) -> None:
    plan = f"arn:aws:sagemaker:{REGION}:{ACCOUNT_ID}:training-plan/plan"
    keys = {"TrainingPlanArn": f"{plan}-1", "ImageId": "ami-0123456789abcdef0"}
    sagemaker.create_cluster(**bench.request(InstanceGroups=[bench.group("g", "ml.p5.48xlarge", 1, **keys)]))
    bench.advance(minutes=30)
    [group] = sagemaker.describe_cluster(**NAME)["InstanceGroups"]
    assert (group["TrainingPlanArn"], group["DesiredImageId"]) == (f"{plan}-1", "ami-0123456789abcdef0")
    changed = bench.group("g", "ml.p5.48xlarge", 1, **keys | {"TrainingPlanArn": f"{plan}-2"})
    sagemaker.update_cluster(**NAME, InstanceGroups=[changed])
    [group] = sagemaker.describe_cluster(**NAME)["InstanceGroups"]
    assert group["TrainingPlanArn"] == f"{plan}-2"


def test_a_groups_own_subnet_gives_its_nodes_their_zone(bench: HyperPodBench, sagemaker: Any) -> None:
    ec2 = bench.client("ec2")
    vpc = ec2.describe_subnets(SubnetIds=[bench.subnet_id])["Subnets"][0]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.64.0/18", AvailabilityZoneId="usw2-az1")["Subnet"]
    elsewhere = {"SecurityGroupIds": [bench.security_group_id], "Subnets": [subnet["SubnetId"]]}
    groups = [
        bench.group("here", "ml.m5.2xlarge", 1),
        bench.group("there", "ml.m5.2xlarge", 1, OverrideVpcConfig=elsewhere),
    ]
    sagemaker.create_cluster(**bench.request(InstanceGroups=groups))
    bench.advance(minutes=30)
    zones = {
        node.labels["sagemaker.amazonaws.com/instance-group-name"]: node.labels["topology.k8s.aws/zone-id"]
        for node in bench.eks.nodes.values()
    }
    assert zones == {"here": "usw2-az2", "there": "usw2-az1"}
    names = {node.labels["topology.kubernetes.io/zone"] for node in bench.eks.nodes.values()}
    assert subnet["AvailabilityZone"] in names
    assert len(names) == 2


def test_health_of_slurm_is_told_by_an_event_of_its_cluster() -> None:
    with HyperPodBench(slurm=True) as bench:
        sagemaker = bench.client("sagemaker")
        sagemaker.create_cluster(**bench.request())
        bench.advance(minutes=60)
        for reason in ("DbUnreachable", None):
            bench.fault(slurm_health={"cluster": "ml-cluster", "reason": reason})
            bench.advance(minutes=1)
        events = sagemaker.list_cluster_events(**NAME, ResourceType="Cluster")["Events"][:2]
        told = [sagemaker.describe_cluster_event(**NAME, EventId=event["EventId"])["EventDetails"] for event in events]
        assert [detail["EventDetails"]["EventMetadata"]["SlurmHealth"] for detail in told] == [
            {"Component": "Slurmdbd", "Status": "Healthy"},
            {"Component": "Slurmdbd", "Status": "Unhealthy", "Reason": "DbUnreachable"},
        ]
        assert [event["EventLevel"] for event in events] == ["Info", "Warn"]


def test_cluster_of_eks_tells_no_health_of_slurm(bench: HyperPodBench, sagemaker: Any) -> None:
    sagemaker.create_cluster(**bench.request())
    with pytest.raises(BadRequest, match="Allowed: a cluster of Slurm with NodeProvisioningMode Continuous"):
        bench.fault(slurm_health={"cluster": "ml-cluster", "reason": "DaemonDown"})
