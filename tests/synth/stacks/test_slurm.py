"""A cluster that Slurm orchestrates: three stacks, nothing of EKS, and two ways to configure Slurm."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

import config
from config import SlurmEnvironment, naming
from config.load import EXAMPLES
from config.model import Slurm
from k8s_charts.storage.volumes import FileSystemAddress
from stacks.hyperpod.lifecycle_scripts import LifecycleScripts
from stacks.hyperpod.slurm import provisioning_parameters, topology
from tests.synth.support.synthesis import Assemblies, Assembly, synthesise
from tests.unit.contracts import contract as contracts

ADDRESS = FileSystemAddress("fs-0123456789abcdef0", "fs-0.fsx.us-west-2.amazonaws.com", "abcdefgh")


@pytest.fixture(scope="module")
def slurm(assembly: Assemblies) -> Assembly:
    return assembly("slurm")


@pytest.fixture(scope="module")
def cluster(slurm: Assembly) -> dict[str, Any]:
    return slurm.templates["hyperpod"].only("Custom::HyperPodCluster")


@pytest.fixture(scope="module")
def by_scripts() -> SlurmEnvironment:
    environment = config.load_as(config.SlurmEnvironment, "slurm")
    return environment.model_copy(update={"slurm": Slurm(configuration="provisioning_parameters")})


def test_its_stacks_are_network_storage_and_hyperpod_in_this_order(slurm: Assembly) -> None:
    artifacts = slurm.manifest["artifacts"]
    stacks = {part: naming.stack(slurm.environment, part) for part in slurm.environment.stacks}
    made = {name for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
    assert made == set(stacks.values())
    assert stacks["network"] in artifacts[stacks["storage"]]["dependencies"]
    assert stacks["storage"] in artifacts[stacks["hyperpod"]]["dependencies"]


def test_nothing_of_eks_or_kubernetes_is_in_its_templates(slurm: Assembly) -> None:
    for template in slurm.templates.values():
        text = json.dumps(template.body["Resources"]).lower()
        assert [word for word in ("eks", "kubernetes", "ecr:", "kuberay", "helm") if word in text] == []


def test_hyperpod_configures_slurm_by_the_groups_of_the_request(cluster: dict[str, Any]) -> None:
    assert cluster["Orchestrator"] == {"Slurm": "{}"}
    assert cluster["NodeProvisioningMode"] == "Continuous"
    assert {group["InstanceGroupName"]: group["SlurmConfig"] for group in cluster["InstanceGroups"]} == {
        "controller-machine": {"NodeType": "Controller"},
        "login-group": {"NodeType": "Login"},
        "worker-group-1": {"NodeType": "Compute", "PartitionNames": ["dev"]},
    }


def test_hyperpod_mounts_the_file_system_on_every_node(slurm: Assembly, cluster: dict[str, Any]) -> None:
    for group in cluster["InstanceGroups"]:
        [mounted] = [each["FsxLustreConfig"] for each in group["InstanceStorageConfigs"] if "FsxLustreConfig" in each]
        assert mounted["MountPath"] == "/fsx"
        for name in ("DnsName", "MountName"):
            assert slurm.imported(mounted[name])[1]["Type"] == "AWS::FSx::FileSystem"


def test_the_nodes_role_reads_scripts_and_data_and_has_no_right_for_pods(slurm: Assembly) -> None:
    template = slurm.templates["hyperpod"]
    [policy] = [
        each["PolicyDocument"]["Statement"]
        for id, each in ((id, r["Properties"]) for id, r in template.all("AWS::IAM::Policy").items())
        if id.startswith("ExecutionRole")
    ]
    listed = [[row["Action"]] if isinstance(row["Action"], str) else row["Action"] for row in policy]
    actions = {action for each in listed for action in each}
    assert {"s3:GetObject", "s3:ListBucket", "ssmmessages:OpenDataChannel", "cloudwatch:PutMetricData"} < actions
    assert not [action for action in actions if action.startswith(("eks", "ecr", "sagemaker"))]
    assert not [action for action in actions if action.startswith("s3:") and "Put" in action]
    assert "ec2:AssignPrivateIpAddresses" not in actions


def test_under_the_apis_way_no_file_of_parameters_is_generated() -> None:
    assert provisioning_parameters(config.load_as(config.SlurmEnvironment, "slurm"), ADDRESS) is None


def test_the_scripts_way_has_the_guides_file_and_login_nodes_are_no_workers(by_scripts: SlurmEnvironment) -> None:
    made = provisioning_parameters(by_scripts, ADDRESS)
    assert made
    contract = contracts.read("slurm_files")
    assert made.name == contract["provisioning_parameters"]
    assert {*made.content} == {*contract["parameters_required"], contract["login_group"]}
    assert made.content == {
        "version": "1.0.0",
        "workload_manager": "slurm",
        "controller_group": "controller-machine",
        "login_group": "login-group",
        "worker_groups": [{"instance_group_name": "worker-group-1", "partition_name": "dev"}],
        "fsx_dns_name": ADDRESS.dns_name,
        "fsx_mountname": ADDRESS.mount_name,
    }


def test_the_scripts_way_has_no_field_of_the_apis(by_scripts: SlurmEnvironment) -> None:
    made = topology(by_scripts, ADDRESS)
    assert (made.of_cluster, made.storage()) == ({}, [])
    assert [made.of_group(group) for group in by_scripts.hyperpod.instance_groups] == [{}, {}, {}]


def test_a_changed_file_of_parameters_is_uploaded_to_a_prefix_of_its_own(by_scripts: SlurmEnvironment) -> None:
    app = cdk.App()
    bucket = s3.Bucket(cdk.Stack(app, "storage"), "bucket", bucket_name="sagemaker-scripts")
    stack = cdk.Stack(app, "stack")
    folders = ["lifecycle_scripts/slurm"]
    made = provisioning_parameters(by_scripts, ADDRESS)
    with_it = LifecycleScripts(stack, "with", bucket=bucket, folders=folders, generated=made)
    without = LifecycleScripts(stack, "without", bucket=bucket, folders=folders)
    assert with_it.uris != without.uris


def test_the_example_is_the_one_that_new_environments_copy() -> None:
    assert (EXAMPLES / "slurm.yaml").is_file()
    assert Path(config.file_of("slurm")) == EXAMPLES / "slurm.yaml"


def test_managed_policy_replaces_the_statements_that_it_covers_and_no_others(slurm: Assembly, tmp_path: Path) -> None:
    """AWS's policy reads buckets that begin with `sagemaker-`: the lifecycle bucket, not the data bucket."""
    asked = slurm.environment.model_copy(update={"slurm": Slurm(managed_policy=True)})
    template = synthesise(asked, tmp_path, validated=True).templates["hyperpod"]
    [role] = [
        each
        for each in template.properties("AWS::IAM::Role")
        if "ManagedPolicyArns" in each and "Nodes of" in str(each)
    ]
    assert "AmazonSageMakerClusterInstanceRolePolicy" in json.dumps(role["ManagedPolicyArns"])
    statements = [
        json.dumps(statement)
        for policy in template.properties("AWS::IAM::Policy")
        if "ExecutionRole" in json.dumps(policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    assert not [each for each in statements if "logs:" in each or "ssmmessages:" in each or "cloudwatch:" in each]
    assert [each for each in statements if "ec2:CreateNetworkInterface" in each]
    assert len([each for each in statements if "s3:GetObject" in each]) == 1
    assert naming.lifecycle_bucket(asked).startswith("sagemaker-")
