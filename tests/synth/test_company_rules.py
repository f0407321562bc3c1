"""What a company demands holds for every resource of every stack, CDK's own included."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from config import Environment, load, naming
from config.model import Company, Notifications
from embedded_account.cloudformation.templates.resource_types import resource_types
from rehearsal.paths import NODE_MODULES
from stacks.storage.file_system import LustreFileSystem
from tests.synth.support.kubernetes_objects import MANIFEST, text
from tests.synth.support.synthesis import Assembly, synthesise

COMPANY = Company(
    permissions_boundary="arn:aws:iam::111122223333:policy/Boundary",
    role_path="/ml-platform/",
    tags={"CostCenter": "1234", "Owner": "ml platform"},
    bootstrap_qualifier="mlplatform",
    kms_key="arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    name_pattern="acme-{environment}-{name}",
)
KEY = str(COMPANY.kms_key)
BUDGET = {naming.BUDGET_TAG: "rayhp-dev-us-west-2"}


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    dev = load("dev")
    environment: Environment = dev.model_copy(
        update={
            "company": COMPANY,
            "fsx": dev.fsx.model_copy(update={"provisioning": "dynamic"}),
            "notifications": Notifications(email="ml-platform@example.com", monthly_budget_usd=200_000),
        }
    )
    return synthesise(environment, tmp_path_factory.mktemp("company"), validated=True)


def resources(assembly: Assembly) -> Iterator[tuple[str, dict[str, Any]]]:
    for part, template in assembly.templates.items():
        for id, resource in template.body["Resources"].items():
            yield f"{part}/{id}", resource


def policy_statements(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the statements of a policy, or of a role's inline policies."""
    properties = resource.get("Properties", {})
    if resource["Type"] == "AWS::IAM::Policy":
        yield from properties["PolicyDocument"]["Statement"]
    elif resource["Type"] == "AWS::IAM::Role":
        for policy in properties.get("Policies", []):
            yield from policy["PolicyDocument"]["Statement"]


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_every_role_has_boundary_and_path(assembly: Assembly) -> None:
    roles = {id: each["Properties"] for id, each in resources(assembly) if each["Type"] == "AWS::IAM::Role"}
    assert len(roles) > 10
    for id, properties in roles.items():
        found = properties.get("PermissionsBoundary"), properties.get("Path")
        assert found == (COMPANY.permissions_boundary, COMPANY.role_path), id


def test_every_resource_that_can_have_tags_has_the_companys_and_the_budgets(assembly: Assembly) -> None:
    known, tagged = resource_types(NODE_MODULES), 0
    for id, resource in resources(assembly):
        kind = known.get(resource["Type"])
        if kind and kind.tags:
            tags = resource["Properties"].get(kind.tags.name, [])
            tags = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
            assert {**COMPANY.tags, **BUDGET}.items() <= tags.items(), id
            tagged += 1
    assert tagged > 30


def test_cluster_and_the_drivers_file_systems_have_the_tags(assembly: Assembly) -> None:
    cluster = assembly.templates["hyperpod"].only("Custom::HyperPodCluster")
    tags = {tag["Key"]: tag["Value"] for tag in cluster["Tags"]}
    assert tags == {**COMPANY.tags, **BUDGET, "SageMaker": "true", "project": "rayhp", "environment": "dev"}
    releases = assembly.templates["platform"].properties("Custom::AWSCDK-EKS-HelmChart")
    [driver] = [json.loads(each["Values"]) for each in releases if each["Release"] == "aws-fsx-csi-driver"]
    assert {**COMPANY.tags, **BUDGET}.items() <= driver["controller"]["extraTags"].items()


def test_instances_and_volumes_of_the_system_nodes_have_the_tags(assembly: Assembly) -> None:
    data = assembly.templates["eks"].only("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    tags = {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]} for each in data["TagSpecifications"]
    }
    for kind in ("instance", "volume"):
        assert {**COMPANY.tags, **BUDGET}.items() <= tags[kind].items(), kind


def test_stacks_use_the_bootstrap_resources_of_the_qualifier(assembly: Assembly) -> None:
    files = [Path(assembly.directory, "manifest.json"), *Path(assembly.directory).glob("*.template.json")]
    texts = [file.read_text() for file in files]
    assert any("cdk-mlplatform-deploy-role" in text for text in texts)
    assert not any("hnb659fds" in text or "cdk-None" in text for text in texts)
    role = json.dumps(assembly.templates["eks"].all("AWS::IAM::Role"))
    assert "cdk-mlplatform-assets-111122223333-us-west-2/*" in role


def test_every_resource_that_can_be_encrypted_has_the_companys_key_and_none_is_made(assembly: Assembly) -> None:
    known, keyed = resource_types(NODE_MODULES), set()
    for id, resource in resources(assembly):
        assert resource["Type"] != "AWS::KMS::Key", id
        # A custom resource has no schema; CDK's functions keep names and ARNs in their variables, and no secrets.
        kind = known.get(resource["Type"])
        names = kind.properties if kind else ()
        if resource["Type"] != "AWS::Lambda::Function" and any("kms" in name.casefold() for name in names):
            assert KEY in json.dumps(resource["Properties"]), id
            keyed.add(resource["Type"])
    assert keyed >= {"AWS::Logs::LogGroup", "AWS::SNS::Topic"}


def test_data_and_kubernetes_secrets_are_encrypted_with_the_companys_key(assembly: Assembly) -> None:
    for bucket in assembly.templates["storage"].properties("AWS::S3::Bucket"):
        [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
        assert rule["BucketKeyEnabled"] is True
    repository = assembly.templates["storage"].only("AWS::ECR::Repository")
    assert repository["EncryptionConfiguration"] == {"EncryptionType": "KMS", "KmsKey": KEY}
    eks = assembly.templates["eks"].only("AWS::EKS::Cluster")
    assert eks["EncryptionConfig"] == [{"Provider": {"KeyArn": KEY}, "Resources": ["secrets"]}]


def test_volumes_of_all_nodes_are_encrypted_with_the_companys_key(assembly: Assembly) -> None:
    data = assembly.templates["eks"].only("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert [each["Ebs"]["KmsKeyId"] for each in data["BlockDeviceMappings"]] == [KEY]
    for group in assembly.templates["hyperpod"].only("Custom::HyperPodCluster")["InstanceGroups"]:
        root, secondary = (each["EbsVolumeConfig"] for each in group["InstanceStorageConfigs"])
        assert root == {"RootVolume": True, "VolumeKmsKeyId": KEY}
        assert (secondary["VolumeKmsKeyId"], secondary["VolumeSizeInGB"] > 0) == (KEY, True)


def test_file_systems_are_encrypted_with_the_companys_key(assembly: Assembly) -> None:
    texts = [text(each["Manifest"]) for each in assembly.templates["platform"].properties(MANIFEST)]
    [storage_class] = [json.loads(each)[0] for each in texts if '"StorageClass"' in each]
    assert storage_class["parameters"]["kmsKeyId"] == KEY
    stack = cdk.Stack(cdk.App(analytics_reporting=False))
    LustreFileSystem(
        stack,
        "FileSystem",
        settings=load("dev").fsx,
        subnet=ec2.Subnet.from_subnet_id(stack, "Subnet", "subnet-0"),
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0"),
        data_bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "data"),
        protect=False,
        key=kms.Key.from_key_arn(stack, "Key", KEY),
    )
    assertions.Template.from_stack(stack).has_resource_properties("AWS::FSx::FileSystem", {"KmsKeyId": KEY})


# By role: what it may do with the key, through which service.
RIGHTS: dict[str, set[tuple[str, str]]] = {
    "hyperpod/ExecutionRole": {
        ("sagemaker", "kms:CreateGrant"),
        ("sagemaker", "kms:DescribeKey"),
        ("s3", "kms:Decrypt"),
    },
    "hyperpod/ProviderOnEvent": {("sagemaker", "kms:CreateGrant"), ("sagemaker", "kms:DescribeKey")},
    "hyperpod/ProviderIsComplete": {("sagemaker", "kms:CreateGrant"), ("sagemaker", "kms:DescribeKey")},
    "platform/FsxCsiRole": {
        ("fsx", "kms:CreateGrant"),
        ("fsx", "kms:Decrypt"),
        ("fsx", "kms:DescribeKey"),
        ("fsx", "kms:GenerateDataKeyWithoutPlaintext"),
    },
    "ray/RayRole": {("s3", "kms:Decrypt"), ("s3", "kms:GenerateDataKey")},
    "ray/ImageBuilderRole": {("s3", "kms:GenerateDataKey")},
}


def test_roles_may_use_the_key_through_the_service_that_needs_it_and_not_otherwise(assembly: Assembly) -> None:
    found: dict[str, set[tuple[str, str]]] = {}
    for id, resource in resources(assembly):
        for statement in policy_statements(resource):
            actions = listed(statement["Action"])
            if not any(action.startswith("kms:") for action in actions) or "CustomCDKBucketDeployment" in id:
                continue
            assert statement["Resource"] == KEY, id
            condition = statement["Condition"]
            assert ("Bool" in condition) == (actions == ["kms:CreateGrant"]), id
            service, _, rest = condition["StringEquals"]["kms:ViaService"].partition(".")
            assert rest == "us-west-2.amazonaws.com"
            [role] = [role for role in RIGHTS if id.startswith(role)]
            found.setdefault(role, set()).update((service, action) for action in actions)
    assert found == RIGHTS


def test_cdks_upload_of_lifecycle_scripts_may_use_this_key_only(assembly: Assembly) -> None:
    uploads = [
        statement
        for id, resource in resources(assembly)
        for statement in policy_statements(resource)
        if "CustomCDKBucketDeployment" in id and any(each.startswith("kms:") for each in listed(statement["Action"]))
    ]
    assert {each["Resource"] for each in uploads} == {KEY}


def test_names_follow_the_pattern(assembly: Assembly) -> None:
    storage = assembly.templates["storage"]
    where = "111122223333-us-west-2"
    assert {each["BucketName"] for each in storage.properties("AWS::S3::Bucket")} == {
        f"acme-dev-data-{where}",
        # SageMaker expects this prefix of a bucket with lifecycle scripts.
        f"sagemaker-acme-dev-lifecycle-{where}",
    }
    assert assembly.templates["eks"].only("AWS::EKS::Cluster")["Name"] == "acme-dev-eks"
    stacks = {file.name.removesuffix(".template.json") for file in assembly.directory.glob("*.template.json")}
    assert stacks == {f"acme-dev-{part}" for part in naming.STACKS}


def test_cloudformation_names_roles_and_functions_after_their_stack(assembly: Assembly) -> None:
    """CloudFormation's names begin with the stack's name, as the pattern demands, and cannot collide at a replacement.

    A resource with a name of its own cannot be replaced: the new one would need the name of the old one.
    """
    named = {
        "AWS::IAM::Role": "RoleName",
        "AWS::Lambda::Function": "FunctionName",
        "AWS::Logs::LogGroup": "LogGroupName",
        "AWS::StepFunctions::StateMachine": "StateMachineName",
    }
    # EKS dictates this one.
    dictated = {None, "/aws/eks/acme-dev-eks/cluster"}
    for id, resource in resources(assembly):
        if resource["Type"] in named:
            assert resource["Properties"].get(named[resource["Type"]]) in dictated, id
