"""The keys of an instance group in CreateCluster's request, and in the other stacks."""

from pathlib import Path
from typing import Any

import pytest

from config import Environment, load
from config.model import Taint
from tests.synth.stacks.test_hyperpod import CLUSTER, UPLOAD, execution_role, policy_of
from tests.synth.support.synthesis import Assembly, synthesise

TAINTS = (Taint(key="team", value="a", effect="NoSchedule"), Taint(key="reserved", effect="NoExecute"))
PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/plan-1"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "on_create.sh").write_text("#!/bin/bash\n")
    return folder


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory, scripts: Path) -> Assembly:
    """Return `small` with every key stated in its second group."""
    keys = {
        "min_count": 1,
        "labels": {"team": "a"},
        "taints": TAINTS,
        "zone": "usw2-az1",
        "training_plan": PLAN,
        "image_id": "ami-0123456789abcdef0",
        "lifecycle_scripts": str(scripts),
    }
    environment = _with_keys(load("small"), keys, {"confirm_group_removal": ("former-group",)})
    return synthesise(environment, tmp_path_factory.mktemp("stated"))


def _with_keys(environment: Environment, of_group: dict[str, Any], of_cluster: dict[str, Any]) -> Environment:
    head, workers = environment.hyperpod.instance_groups
    groups = (head, workers.model_copy(update=of_group))
    hyperpod = environment.hyperpod.model_copy(update={"instance_groups": groups, **of_cluster})
    return environment.model_copy(update={"hyperpod": hyperpod})


@pytest.fixture
def cluster(stated: Assembly) -> dict[str, Any]:
    return stated.templates["hyperpod"].only(CLUSTER)


def test_keys_of_a_group_are_createclusters_fields(cluster: dict[str, Any]) -> None:
    _, group = cluster["InstanceGroups"]
    assert group["MinInstanceCount"] == 1
    assert group["TrainingPlanArn"] == PLAN
    assert group["ImageId"] == "ami-0123456789abcdef0"
    assert group["KubernetesConfig"] == {
        "Labels": {"team": "a"},
        "Taints": [
            {"Key": "team", "Effect": "NoSchedule", "Value": "a"},
            {"Key": "reserved", "Effect": "NoExecute"},
        ],
    }


def test_what_a_group_does_not_state_is_not_sent(cluster: dict[str, Any]) -> None:
    head, _ = cluster["InstanceGroups"]
    assert set(head) == {
        "InstanceGroupName",
        "InstanceType",
        "InstanceCount",
        "ThreadsPerCore",
        "ExecutionRole",
        "LifeCycleConfig",
        "InstanceStorageConfigs",
    }


def test_group_of_another_zone_lies_in_that_zones_subnet_with_the_shared_security_group(stated: Assembly) -> None:
    cluster = stated.templates["hyperpod"].only(CLUSTER)
    override = cluster["InstanceGroups"][1]["OverrideVpcConfig"]
    [subnet] = override["Subnets"]
    assert stated.imported(subnet)[1]["Properties"]["AvailabilityZoneId"] == "usw2-az1"
    assert override["SecurityGroupIds"] == cluster["VpcConfig"]["SecurityGroupIds"]


def test_the_first_zone_needs_no_network_of_its_own(tmp_path: Path) -> None:
    """Stating it for a running group must change nothing, because a group's network cannot change."""
    environment = _with_keys(load("small"), {"zone": "usw2-az2"}, {})
    cluster = synthesise(environment, tmp_path).templates["hyperpod"].only(CLUSTER)
    assert not any("OverrideVpcConfig" in group for group in cluster["InstanceGroups"])


def test_nodes_may_have_interfaces_in_every_subnet_of_a_group_and_in_no_other(stated: Assembly) -> None:
    hyperpod = stated.templates["hyperpod"]
    [interfaces] = [
        statement
        for statement in policy_of(hyperpod, execution_role(hyperpod))
        if "ec2:CreateNetworkInterface" in statement["Action"]
    ]
    imported = [part for each in interfaces["Resource"] if isinstance(each, dict) for part in each["Fn::Join"][1]]
    found = [stated.imported(part)[1] for part in imported if isinstance(part, dict) and "Fn::ImportValue" in part]
    zones = [each["Properties"]["AvailabilityZoneId"] for each in found if each["Type"] == "AWS::EC2::Subnet"]
    assert zones == ["usw2-az2", "usw2-az1"]


def test_each_folder_of_scripts_is_uploaded_once_and_each_group_has_its_own(stated: Assembly) -> None:
    hyperpod = stated.templates["hyperpod"]
    prefixes = {upload["DestinationBucketKeyPrefix"] for upload in hyperpod.properties(UPLOAD)}
    groups = hyperpod.only(CLUSTER)["InstanceGroups"]
    used = [group["LifeCycleConfig"]["SourceS3Uri"]["Fn::Join"][1][-1].strip("/") for group in groups]
    assert len(prefixes) == 2
    assert set(used) == prefixes


def test_groups_with_the_same_folder_share_its_upload(dev: Assembly) -> None:
    assert len(dev.environment.hyperpod.instance_groups) > 1
    assert len(dev.templates["hyperpod"].properties(UPLOAD)) == 1


def test_a_removal_is_confirmed_to_the_handler(cluster: dict[str, Any], dev: Assembly) -> None:
    assert cluster["ConfirmGroupRemoval"] == ["former-group"]
    assert "ConfirmGroupRemoval" not in dev.templates["hyperpod"].only(CLUSTER)


def test_device_plugins_run_on_tainted_nodes(stated: Assembly) -> None:
    values = str(stated.templates["eks"].properties("Custom::AWSCDK-EKS-HelmChart"))
    for taint in ('"key":"team","operator":"Equal","value":"a"', '"key":"reserved","operator":"Equal","value":""'):
        assert values.count(taint) == len(("nvidia-device-plugin", "aws-efa-k8s-device-plugin"))


def statements_of(assembly: Assembly, handler: str) -> list[dict[str, Any]]:
    template = assembly.templates["hyperpod"]
    [function] = [f for f in template.properties("AWS::Lambda::Function") if f["Handler"].endswith(f".{handler}")]
    return policy_of(template, function["Role"]["Fn::GetAtt"][0])


@pytest.mark.parametrize("handler", ["on_event", "is_complete"])
def test_handlers_may_share_the_groups_own_amis_and_no_others(stated: Assembly, dev: Assembly, handler: str) -> None:
    granted = {
        action: statement["Resource"]
        for statement in statements_of(stated, handler)
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        if action.startswith("ec2:")
    }
    assert granted == {
        "ec2:DescribeImages": "*",
        "ec2:DescribeSnapshots": "*",
        "ec2:ModifyImageAttribute": "arn:aws:ec2:us-west-2::image/ami-0123456789abcdef0",
        "ec2:ModifySnapshotAttribute": "arn:aws:ec2:us-west-2::snapshot/*",
    }
    assert "ec2:" not in str(statements_of(dev, handler))


@pytest.mark.parametrize("handler", ["on_event", "is_complete"])
def test_handlers_may_use_the_training_plans_of_the_groups_and_no_others(
    stated: Assembly, dev: Assembly, handler: str
) -> None:
    [found] = [s for s in statements_of(stated, handler) if "sagemaker:DescribeTrainingPlan" in s["Action"]]
    assert "sagemaker:UpdateCluster" in found["Action"]
    assert set(found["Resource"]) == {PLAN, "arn:aws:sagemaker:us-west-2:111122223333:reserved-capacity/*"}
    assert not any("sagemaker:DescribeTrainingPlan" in s["Action"] for s in statements_of(dev, handler))
