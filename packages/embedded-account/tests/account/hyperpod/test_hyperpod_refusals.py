"""Test that the simulator refuses the same requests as SageMaker, with the messages that users know."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.config import Config

from embedded_account.hyperpod.api.validation import validate
from embedded_account.hyperpod.bench import EXECUTION_POLICY, HyperPodBench
from embedded_account.hyperpod.errors import ValidationFailedError

Refusal = Callable[..., str]


@pytest.fixture
def unchecked(bench: HyperPodBench) -> Any:
    """Return a client that validates nothing itself, like an older SDK."""
    return bench.client("sagemaker", config=Config(parameter_validation=False))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"NodeRecovery": "Always"}, "'nodeRecovery' failed to satisfy constraint: Member must satisfy enum value set"),
        ({"ClusterName": "-x"}, "'clusterName' failed to satisfy constraint: Member must satisfy regular expression"),
        ({"ClusterName": "x" * 64}, "'clusterName' failed to satisfy constraint: Member must have length less than"),
        ({"InstanceGroups": []}, "'instanceGroups' failed to satisfy constraint: Member must have length greater"),
        ({"ClusterName": None}, "Value null at 'clusterName'"),
    ],
)
def test_request_is_checked_against_the_service_model(
    bench: HyperPodBench, unchecked: Any, refusal: Refusal, changes: dict[str, Any], complaint: str
) -> None:
    assert complaint in refusal("ValidationException", unchecked.create_cluster, **bench.request(**changes))


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        (
            {"InstanceCount": "4"},
            "'instanceGroups.1.member.instanceCount' failed to satisfy constraint: Member must be",
        ),
        ({"InstanceCount": True}, "must be of type integer"),
        ({"InstanceCount": 6759}, "Member must have value less than or equal to 6758"),
        ({"InstanceCount": -1}, "Member must have value greater than or equal to 0"),
        ({"ExecutionRole": "role/execution-role-of-nodes"}, "'instanceGroups.1.member.executionRole'"),
        ({"InstanceType": "ml.p99.large"}, "Member must satisfy enum value set"),
        (
            {"InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 1}, "FsxOpenZfsConfig": {}}]},
            "exactly one of",
        ),
        ({"KubernetesConfig": {"Labels": {"a b": "c"}}}, "kubernetesConfig.labels.key"),
    ],
)
def test_instance_group_is_checked_against_the_service_model(
    bench: HyperPodBench, unchecked: Any, refusal: Refusal, members: dict[str, Any], complaint: str
) -> None:
    groups = [bench.group("g", "ml.m5.2xlarge", 1) | members]
    request = bench.request(InstanceGroups=groups)
    assert complaint in refusal("ValidationException", unchecked.create_cluster, **request)


def test_unknown_member_is_refused() -> None:
    with pytest.raises(
        ValidationFailedError, match="Unknown member 'nodeRecovey'; CreateClusterRequest has AutoScaling"
    ):
        validate("CreateCluster", {"ClusterName": "x", "NodeRecovey": "None"})


def test_all_violations_are_reported_at_once(bench: HyperPodBench, unchecked: Any, refusal: Refusal) -> None:
    request = bench.request(ClusterName="-x", NodeRecovery="Always")
    assert refusal("ValidationException", unchecked.create_cluster, **request).startswith("2 validation errors")


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ({"OnStartDeepHealthChecks": ["InstanceStress"]}, "deep health checks are not supported for ml.m5.2xlarge"),
        ({"InstanceRequirements": {"InstanceTypes": ["ml.m5.xlarge"]}}, "InstanceType or InstanceRequirements"),
        ({"MinInstanceCount": 2}, "MinInstanceCount is above InstanceCount"),
        ({"InstanceType": "ml.p6e-gb200.36xlarge"}, "no figures for ml.p6e-gb200"),
        ({"ImageReleaseVersion": "1.0.0"}, "does not simulate ImageReleaseVersion of instance group g"),
        ({"TrainingPlanArn": "arn:aws:sagemaker:us-west-2:999999999999:training-plan/plan-1"}, "does not exist"),
        ({"InstanceStorageConfigs": [{"EbsVolumeConfig": {}}]}, "VolumeSizeInGB is required"),
        (
            {"InstanceStorageConfigs": [{"EbsVolumeConfig": {"RootVolume": True, "VolumeSizeInGB": 200}}]},
            "RootVolume requires VolumeKmsKeyId and does not allow VolumeSizeInGB",
        ),
    ],
)
def test_contradictory_instance_group_is_refused(
    bench: HyperPodBench, sagemaker: Any, refusal: Refusal, members: dict[str, Any], complaint: str
) -> None:
    request = bench.request(InstanceGroups=[bench.group("g", "ml.m5.2xlarge", 1) | members])
    assert complaint in refusal("ValidationException", sagemaker.create_cluster, **request)


def test_deep_checks_do_not_go_with_custom_taints(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    group = bench.group(
        "g",
        "ml.p5.48xlarge",
        1,
        OnStartDeepHealthChecks=["InstanceStress"],
        KubernetesConfig={"Taints": [{"Key": "dedicated", "Effect": "NoSchedule"}]},
    )
    text = refusal("ValidationException", sagemaker.create_cluster, **bench.request(InstanceGroups=[group]))
    assert "custom taints cannot be used with OnStartDeepHealthChecks" in text


def test_minimum_count_needs_continuous_provisioning(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    request = bench.request(InstanceGroups=[bench.group("g", "ml.m5.2xlarge", 1, MinInstanceCount=1)])
    del request["NodeProvisioningMode"]
    text = refusal("ValidationException", sagemaker.create_cluster, **request)
    assert "MinInstanceCount needs NodeProvisioningMode Continuous" in text


def test_group_names_are_unique(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    groups = [bench.group("g", "ml.m5.2xlarge", 1)] * 2
    text = refusal("ValidationException", sagemaker.create_cluster, **bench.request(InstanceGroups=groups))
    assert "must be unique: g" in text


def test_missing_dependencies_are_reported_in_aws_words(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    bench.eks.missing = ["DaemonSet health-monitoring-agent in namespace aws-hyperpod"]
    text = refusal("ValidationException", sagemaker.create_cluster, **bench.request())
    assert text.startswith("The Amazon EKS orchestrator cluster eks is missing one or more required dependencies. ")
    assert bench.hyperpod.world.clusters == {}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"status": "CREATING"}, "is not ACTIVE but CREATING"),
        ({"authentication_mode": "CONFIG_MAP"}, "authentication mode CONFIG_MAP"),
        ({"version": "1.29"}, "Kubernetes 1.29; HyperPod supports 1.30"),
        ({"vpc_id": "vpc-other"}, "must share a VPC"),
    ],
)
def test_unfit_eks_cluster_is_refused(
    bench: HyperPodBench, sagemaker: Any, refusal: Refusal, changes: dict[str, str], complaint: str
) -> None:
    bench.add_eks_cluster("eks", **changes)
    assert complaint in refusal("ValidationException", sagemaker.create_cluster, **bench.request())


def test_unknown_eks_cluster_is_refused(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    arn = bench.eks.clusters["eks"].arn.replace("/eks", "/other")
    request = bench.request(Orchestrator={"Eks": {"ClusterArn": arn}})
    assert "does not exist" in refusal("ValidationException", sagemaker.create_cluster, **request)


def test_one_eks_cluster_takes_one_hyperpod_cluster(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    sagemaker.create_cluster(**bench.request())
    text = refusal("ValidationException", sagemaker.create_cluster, **bench.request(ClusterName="second"))
    assert "already used by the HyperPod cluster ml-cluster" in text


def test_cluster_name_is_taken_once(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    sagemaker.create_cluster(**bench.request())
    assert "already exists" in refusal("ResourceInUse", sagemaker.create_cluster, **bench.request())


@pytest.mark.parametrize("missing", ["the role", "the trust", "ec2:DescribeSubnets"])
def test_unusable_execution_role_is_refused_with_the_misleading_text(
    bench: HyperPodBench, sagemaker: Any, refusal: Refusal, missing: str
) -> None:
    arn = {
        "the role": lambda: bench.execution_role + "-that-is-gone",
        "the trust": lambda: bench.role("trustless", EXECUTION_POLICY),
        "ec2:DescribeSubnets": lambda: bench.role("poor", service="sagemaker.amazonaws.com"),
    }[missing]()
    request = bench.request(InstanceGroups=[bench.group("g", "ml.m5.2xlarge", 1, ExecutionRole=arn)])
    text = refusal("ValidationException", sagemaker.create_cluster, **request)
    assert text.startswith("Unable to retrieve subnets. Please ensure that the execution role allows the action")


def test_network_must_exist(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    request = bench.request(VpcConfig={"SecurityGroupIds": ["sg-gone"], "Subnets": ["subnet-gone"]})
    text = refusal("ValidationException", sagemaker.create_cluster, **request)
    assert "subnet-gone, sg-gone" in text


def test_quota_is_reported_in_aws_words(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    bench.fault(quota={"ml.p5.48xlarge": 1})
    text = refusal("ResourceLimitExceeded", sagemaker.create_cluster, **bench.request())
    assert text.startswith(
        "The account-level service limit 'ml.p5.48xlarge for cluster usage' is 1 Instances, with current utilization "
        "of 0 Instances and a request delta of 2 Instances."
    )


def test_quota_counts_an_updated_group_once(bench: HyperPodBench, sagemaker: Any, refusal: Refusal) -> None:
    bench.fault(quota={"ml.p5.48xlarge": 3})
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=60)
    groups = [bench.group("worker-group-1", "ml.p5.48xlarge", 3)]
    sagemaker.update_cluster(ClusterName="ml-cluster", InstanceGroups=groups)
    bench.advance(minutes=60)
    groups[0]["InstanceCount"] = 4
    text = refusal("ResourceLimitExceeded", sagemaker.update_cluster, ClusterName="ml-cluster", InstanceGroups=groups)
    assert "utilization of 3 Instances and a request delta of 1 Instances" in text


def test_quota_below_the_utilization_refuses_only_what_adds_instances(
    bench: HyperPodBench, sagemaker: Any, refusal: Refusal
) -> None:
    sagemaker.create_cluster(**bench.request())
    bench.advance(minutes=60)
    bench.fault(quota={"ml.p5.48xlarge": 1})
    groups = [bench.group("worker-group-1", "ml.p5.48xlarge", 2)]
    sagemaker.update_cluster(ClusterName="ml-cluster", InstanceGroups=groups, NodeRecovery="None")
    bench.advance(minutes=60)
    groups[0]["InstanceCount"] = 3
    refusal("ResourceLimitExceeded", sagemaker.update_cluster, ClusterName="ml-cluster", InstanceGroups=groups)


@pytest.mark.parametrize(
    "call", ["describe_cluster", "delete_cluster", "list_cluster_nodes", "list_cluster_events", "update_cluster"]
)
def test_unknown_cluster_is_not_found(sagemaker: Any, refusal: Refusal, call: str) -> None:
    text = refusal("ResourceNotFound", getattr(sagemaker, call), ClusterName="nobody")
    assert text == "Cluster with name nobody not found"


def test_call_for_tags_has_no_error_of_its_own_for_an_unknown_cluster(sagemaker: Any, refusal: Refusal) -> None:
    """botocore's service model lists no error for these calls, so the response is a ValidationException."""
    arn = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl"
    refusal("ValidationException", sagemaker.list_tags, ResourceArn=arn)


def test_key_of_a_volume_must_exist_and_never_changes(bench: HyperPodBench, refusal: Refusal) -> None:
    def request(key: str, **changes: Any) -> dict[str, Any]:
        volumes = [{"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": key}}]
        group = bench.group("g", "ml.m5.2xlarge", 1, InstanceStorageConfigs=volumes)
        return bench.request(InstanceGroups=[group], **changes)

    sagemaker, key, parked = bench.client("sagemaker"), bench.key(), bench.key()
    bench.client("kms").schedule_key_deletion(KeyId=parked.rpartition("/")[2])
    text = refusal("ValidationException", sagemaker.create_cluster, **request(parked))
    assert text == f"Instance group g: the KMS key {parked} is PendingDeletion."
    text = refusal("ValidationException", sagemaker.create_cluster, **request(f"{key[:-1]}x"))
    assert text.endswith("does not exist.")
    old = bench.request(NodeProvisioningMode=None) | {"InstanceGroups": request(key)["InstanceGroups"]}
    del old["NodeProvisioningMode"]
    text = refusal("ValidationException", sagemaker.create_cluster, **old)
    assert text == "Instance group g: VolumeKmsKeyId needs NodeProvisioningMode Continuous."
    sagemaker.create_cluster(**request(key))
    bench.advance(minutes=30)
    changed = {"ClusterName": "ml-cluster", "InstanceGroups": request(bench.key())["InstanceGroups"]}
    text = refusal("ValidationException", sagemaker.update_cluster, **changed)
    assert text.startswith("Instance group g: VolumeKmsKeyId cannot be changed.")
