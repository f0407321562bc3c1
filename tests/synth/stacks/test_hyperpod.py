"""Promises of the hyperpod stack."""

import json
import shutil
from pathlib import Path

import pytest
from aws_cdk import App, FileSystem, Stack
from aws_cdk import aws_s3 as s3

from config import available
from config.model import TieredStorage
from stacks.hyperpod.lifecycle_scripts import PROJECT, LifecycleScripts
from stacks.hyperpod.provider import HANDLERS, pack_handlers
from tests.synth.support.hyperpod_template import CLUSTER, UPLOAD, execution_role, policy_of
from tests.synth.support.synthesis import Assemblies, Assembly, Template, synthesise

TEARDOWN = "Custom::HyperPodClusterTeardown"
SCRIPTS = "lifecycle_scripts/eks"


@pytest.fixture
def hyperpod(dev: Assembly) -> Template:
    return dev.templates["hyperpod"]


def depends_on(template: Template, resource_type: str) -> set[str]:
    [resource] = template.all(resource_type).values()
    return set(resource["DependsOn"])


def test_nodes_may_ask_hyperpod_for_the_interfaces_of_their_pods(hyperpod: Template, dev: Assembly) -> None:
    """The VPC CNI after 1.23.1 asks HyperPod instead of EC2 (amazon-vpc-cni-k8s #3874)."""
    [resource] = [
        statement["Resource"]
        for statement in policy_of(hyperpod, execution_role(hyperpod))
        if statement["Action"] == "sagemaker:AttachClusterNodeNetworkInterface"
    ]
    environment = dev.environment
    assert resource == f"arn:aws:sagemaker:{environment.region}:{environment.account}:cluster/*"


def test_counts_are_numbers_in_the_template_and_so_in_a_diff(hyperpod: Template, dev: Assembly) -> None:
    groups = hyperpod.only(CLUSTER)["InstanceGroups"]
    wanted = dev.environment.hyperpod.instance_groups
    assert [group["InstanceCount"] for group in groups] == [group.count for group in wanted]
    assert all(type(group["InstanceCount"]) is int for group in groups)


@pytest.mark.parametrize("name", available())
def test_groups_are_the_environments_in_createclusters_own_words(assembly: Assemblies, name: str) -> None:
    synthesised = assembly(name)
    groups = synthesised.templates["hyperpod"].only(CLUSTER)["InstanceGroups"]
    for group, wanted in zip(groups, synthesised.environment.hyperpod.instance_groups, strict=True):
        assert group["InstanceGroupName"] == wanted.name
        assert group["InstanceType"] == wanted.instance_type
        assert group["ThreadsPerCore"] == wanted.threads_per_core
        assert group["InstanceStorageConfigs"] == [{"EbsVolumeConfig": {"VolumeSizeInGB": wanted.volume_gib}}]
        assert group.get("OnStartDeepHealthChecks", []) == list(wanted.deep_health_checks)
        assert group["LifeCycleConfig"]["OnCreate"] == "on_create.sh"


def test_cluster_is_bound_to_the_environments_eks_cluster_and_provisions_continuously(
    hyperpod: Template, dev: Assembly
) -> None:
    cluster = hyperpod.only(CLUSTER)
    _, eks = dev.imported(cluster["Orchestrator"]["Eks"]["ClusterArn"])
    assert eks["Type"] == "AWS::EKS::Cluster"
    assert cluster["ClusterName"] == dev.environment.hyperpod.cluster_name
    assert (cluster["NodeProvisioningMode"], cluster["NodeRecovery"]) == ("Continuous", "Automatic")


def test_memory_tier_has_the_share_of_the_environment(dev: Assembly, tmp_path: Path) -> None:
    tier = TieredStorage(memory_percent=35)
    hyperpod = dev.environment.hyperpod.model_copy(update={"tiered_storage": tier})
    environment = dev.environment.model_copy(update={"hyperpod": hyperpod})
    made = synthesise(environment, tmp_path).templates["hyperpod"]
    assert made.only(CLUSTER)["TieredStorageConfig"] == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 35}
    assert "TieredStorageConfig" not in dev.templates["hyperpod"].only(CLUSTER)


def test_nodes_lie_in_the_one_subnet_of_the_first_zone(hyperpod: Template, dev: Assembly) -> None:
    network = hyperpod.only(CLUSTER)["VpcConfig"]
    [subnet] = network["Subnets"]
    assert dev.imported(subnet)[1]["Properties"]["AvailabilityZoneId"] == dev.environment.network.zones[0]
    [group] = network["SecurityGroupIds"]
    assert dev.imported(group)[1]["Type"] == "AWS::EC2::SecurityGroup"


def test_cluster_is_tagged_for_the_training_operators_policy_and_for_people(hyperpod: Template) -> None:
    tags = {tag["Key"]: tag["Value"] for tag in hyperpod.only(CLUSTER)["Tags"]}
    assert tags == {"SageMaker": "true", "project": "rayhp", "environment": "dev"}


def test_cluster_outlives_neither_its_guard_nor_what_nodes_need(hyperpod: Template) -> None:
    [guard] = hyperpod.all(TEARDOWN)
    [upload] = hyperpod.all(UPLOAD)
    role = execution_role(hyperpod)
    [policy] = [id for id, p in hyperpod.all("AWS::IAM::Policy").items() if p["Properties"]["Roles"] == [{"Ref": role}]]
    assert {role, policy, upload} <= depends_on(hyperpod, TEARDOWN)
    assert {guard, role, policy, upload} <= depends_on(hyperpod, CLUSTER)


def test_cluster_and_guard_share_one_provider(hyperpod: Template) -> None:
    assert hyperpod.only(CLUSTER)["ServiceToken"] == hyperpod.only(TEARDOWN)["ServiceToken"]


def test_provider_waits_as_long_as_cloudformation_and_no_longer(hyperpod: Template) -> None:
    _, parts = hyperpod.only("AWS::StepFunctions::StateMachine")["DefinitionString"]["Fn::Join"]
    definition = json.loads("".join(part if isinstance(part, str) else "arn" for part in parts))
    [retry] = definition["States"][definition["StartAt"]]["Retry"]
    assert retry["IntervalSeconds"] * retry["MaxAttempts"] == 3600
    assert retry["BackoffRate"] == 1


def test_handlers_run_on_the_pinned_python_from_one_package(hyperpod: Template) -> None:
    handlers = [f for f in hyperpod.properties("AWS::Lambda::Function") if "hyperpod_cluster" in f["Handler"]]
    assert [f["Handler"] for f in handlers] == ["hyperpod_cluster.index.on_event", "hyperpod_cluster.index.is_complete"]
    assert {f["Runtime"] for f in handlers} == {"python3.13"}
    assert handlers[0]["Code"] == handlers[1]["Code"]


def test_execution_role_is_sagemakers_and_has_no_managed_policy(hyperpod: Template) -> None:
    role = hyperpod.body["Resources"][execution_role(hyperpod)]["Properties"]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert (trust["Action"], trust["Principal"]) == ("sts:AssumeRole", {"Service": "sagemaker.amazonaws.com"})
    assert "ManagedPolicyArns" not in role


def test_execution_role_writes_to_nothing_but_interfaces_logs_metrics_and_sessions(hyperpod: Template) -> None:
    writes = {
        action
        for statement in policy_of(hyperpod, execution_role(hyperpod))
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        if not action.split(":")[1].startswith(("Describe", "Get", "List", "Batch"))
    }
    assert {action for action in writes if not action.startswith(("ec2:", "ssmmessages:"))} == {
        "cloudwatch:PutMetricData",
        "eks-auth:AssumeRoleForPodIdentity",
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "sagemaker:AttachClusterNodeNetworkInterface",
    }
    assert all("Interface" in a or "PrivateIp" in a or a == "ec2:CreateTags" for a in writes if a.startswith("ec2:"))


def test_execution_role_reads_the_lifecycle_bucket_only(hyperpod: Template, dev: Assembly) -> None:
    statements = {str(s["Action"]): s["Resource"] for s in policy_of(hyperpod, execution_role(hyperpod))}
    _, bucket = dev.imported(statements["s3:ListBucket"])
    assert bucket["Properties"]["BucketName"].startswith("sagemaker-")
    assert statements["s3:GetObject"] == {"Fn::Join": ["", [statements["s3:ListBucket"], "/*"]]}


def test_only_the_execution_role_can_be_passed_and_only_to_sagemaker(hyperpod: Template) -> None:
    role = execution_role(hyperpod)
    passes = [
        statement
        for policy in hyperpod.properties("AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "iam:PassRole"
    ]
    assert passes
    for statement in passes:
        assert statement["Resource"] == {"Fn::GetAtt": [role, "Arn"]}
        assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}


def test_scripts_of_earlier_versions_stay_for_a_rollback(hyperpod: Template) -> None:
    upload = hyperpod.only(UPLOAD)
    assert (upload["Prune"], upload["RetainOnDelete"]) == (False, True)


def test_nodes_download_from_where_the_scripts_are_uploaded(hyperpod: Template) -> None:
    upload = hyperpod.only(UPLOAD)
    for group in hyperpod.only(CLUSTER)["InstanceGroups"]:
        assert group["LifeCycleConfig"]["SourceS3Uri"] == {
            "Fn::Join": [
                "",
                ["s3://", upload["DestinationBucketName"], f"/{upload['DestinationBucketKeyPrefix']}/"],
            ]
        }


def test_changed_script_is_a_changed_prefix(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / SCRIPTS, tmp_path / SCRIPTS)
    assert _prefix(tmp_path) == _prefix(PROJECT)
    (tmp_path / SCRIPTS / "on_create.sh").write_text("#!/bin/bash\n")
    assert _prefix(tmp_path) != _prefix(PROJECT)


def test_bytecode_beside_the_scripts_is_not_uploaded_and_changes_no_address(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / SCRIPTS, tmp_path / SCRIPTS)
    before = _prefix(tmp_path)
    for path in ("__pycache__/read.cpython-311.pyc", "read.pyc"):
        (tmp_path / SCRIPTS / path).parent.mkdir(exist_ok=True)
        (tmp_path / SCRIPTS / path).write_bytes(b"bytecode")
    assert _prefix(tmp_path, tmp_path / "out") == before
    uploaded = {path.name for path in (tmp_path / "out").rglob("*")}
    assert "on_create.sh" in uploaded
    assert not {name for name in uploaded if name.endswith(".pyc")}


def _prefix(project: Path, out: Path | None = None) -> str:
    app = App(outdir=str(out) if out else None)
    bucket = s3.Bucket(Stack(app, "storage"), "bucket", bucket_name="sagemaker-scripts")
    stack = Stack(app, "hyperpod")
    scripts = LifecycleScripts(stack, "scripts", bucket=bucket, folders=[SCRIPTS], project=project)
    return scripts.uris[SCRIPTS].rsplit("/", 2)[1]


def test_bytecode_beside_the_handlers_does_not_change_their_package(tmp_path: Path) -> None:
    source = tmp_path / "hyperpod_cluster"
    shutil.copytree(HANDLERS, source, ignore=shutil.ignore_patterns("__pycache__"))
    before = _fingerprint(source, tmp_path / "before")
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "index.cpython-311.pyc").write_bytes(b"bytecode")
    assert _fingerprint(source, tmp_path / "after") == before


def test_changed_handler_changes_the_package(tmp_path: Path) -> None:
    source = tmp_path / "hyperpod_cluster"
    shutil.copytree(HANDLERS, source)
    before = _fingerprint(source, tmp_path / "before")
    (source / "index.py").write_text("")
    assert _fingerprint(source, tmp_path / "after") != before


def _fingerprint(source: Path, package: Path) -> str:
    package.mkdir()
    pack_handlers(package, source)
    return str(FileSystem.fingerprint(str(package)))


def test_state_health_and_errors_of_this_cluster_are_mailed(hyperpod: Template, dev: Assembly) -> None:
    name = dev.environment.hyperpod.cluster_name
    patterns = [rule["EventPattern"] for rule in hyperpod.properties("AWS::Events::Rule")]
    assert [(p["source"], p["detail-type"], p["detail"]) for p in patterns] == [
        (
            ["aws.sagemaker"],
            ["SageMaker HyperPod Cluster State Change", "SageMaker HyperPod Cluster Node Health Event"],
            {"ClusterName": [name]},
        ),
        (
            ["aws.sagemaker"],
            ["SageMaker HyperPod Cluster Event"],
            {"EventDetails": {"ClusterName": [name], "EventLevel": ["Error"]}},
        ),
    ]
    subscription = hyperpod.only("AWS::SNS::Subscription")
    assert dev.environment.notifications
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", dev.environment.notifications.email)


def test_notifications_are_encrypted_on_disk_and_on_the_way(hyperpod: Template) -> None:
    assert hyperpod.only("AWS::KMS::Key")["EnableKeyRotation"] is True
    assert "KmsMasterKeyId" in hyperpod.only("AWS::SNS::Topic")
    statements = hyperpod.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    denied = [s["Condition"] for s in statements if s["Effect"] == "Deny"]
    assert denied == [{"Bool": {"aws:SecureTransport": "false"}}]


def test_environment_without_an_address_has_no_topic(assembly: Assemblies) -> None:
    assert assembly("small").environment.notifications is None
    assert assembly("small").templates["hyperpod"].all("AWS::SNS::Topic") == {}
