"""Lowered protections, and the ones that `protect: false` confirms."""

import json
from typing import Any

import pytest

from ops.review.assembly import Pair
from ops.review.model import Danger, Effect
from tests.unit.ops.review.cloudformation.pairs import Pairs, changes, dangers, of


def encrypted(algorithm: str) -> dict[str, Any]:
    return {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": algorithm}}]}


BUCKET = of(
    "AWS::S3::Bucket",
    VersioningConfiguration={"Status": "Enabled"},
    BucketEncryption=encrypted("aws:kms"),
    LifecycleConfiguration={
        "Rules": [{"Status": "Enabled", "Prefix": "a", "NoncurrentVersionExpiration": {"NoncurrentDays": 30}}]
    },
)
TEMPLATE = of(
    "AWS::EC2::LaunchTemplate",
    LaunchTemplateData={
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True}}],
    },
)


def expiring(days: int, **more: object) -> dict[str, Any]:
    rule = {"Status": "Enabled", "Prefix": "a", "NoncurrentVersionExpiration": {"NoncurrentDays": days}}
    return {"Rules": [{**rule, **more}]}


def images(days: int, status: str = "untagged") -> dict[str, Any]:
    selection = {"tagStatus": status, "countType": "sinceImagePushed", "countNumber": days, "countUnit": "days"}
    return {"LifecyclePolicyText": json.dumps({"rules": [{"rulePriority": 1, "selection": selection}]})}


REPOSITORY = of(
    "AWS::ECR::Repository",
    ImageTagMutability="IMMUTABLE",
    ImageScanningConfiguration={"ScanOnPush": True},
    LifecyclePolicy=images(14),
)
LOGGED = of("AWS::EKS::Cluster", Logging={"ClusterLogging": {"EnabledTypes": [{"Type": "api"}, {"Type": "audit"}]}})
KEY = of("AWS::KMS::Key", EnableKeyRotation=True, PendingWindowInDays=14)
BACKED_UP = of("AWS::FSx::FileSystem", LustreConfiguration={"AutomaticBackupRetentionDays": 7})
MIRRORED = of("AWS::FSx::DataRepositoryAssociation", S3={"AutoExportPolicy": {"Events": ["NEW", "DELETED"]}})


@pytest.mark.parametrize(
    ("resource", "properties"),
    [
        (BUCKET, {"VersioningConfiguration": {"Status": "Suspended"}}),
        (BUCKET, {"VersioningConfiguration": None}),
        (BUCKET, {"BucketEncryption": None}),
        (BUCKET, {"BucketEncryption": encrypted("AES256")}),
        (BUCKET, {"LifecycleConfiguration": expiring(1)}),
        (BUCKET, {"LifecycleConfiguration": expiring(30, ExpirationInDays=90)}),
        (REPOSITORY, {"ImageTagMutability": "MUTABLE"}),
        (REPOSITORY, {"ImageScanningConfiguration": {"ScanOnPush": False}}),
        (REPOSITORY, {"EmptyOnDelete": True}),
        (REPOSITORY, {"LifecyclePolicy": images(1)}),
        (REPOSITORY, {"LifecyclePolicy": images(14, "any")}),
        (LOGGED, {"Logging__ClusterLogging__EnabledTypes": [{"Type": "api"}]}),
        (LOGGED, {"Logging": None}),
        (KEY, {"EnableKeyRotation": False}),
        (KEY, {"PendingWindowInDays": 7}),
        (BACKED_UP, {"LustreConfiguration__AutomaticBackupRetentionDays": 0}),
        (BACKED_UP, {"LustreConfiguration__AutomaticBackupRetentionDays": None}),
        (MIRRORED, {"S3__AutoExportPolicy__Events": ["NEW"]}),
        (MIRRORED, {"S3": {}}),
        (of("AWS::Logs::LogGroup", RetentionInDays=30), {"RetentionInDays": 7}),
        (of("AWS::Logs::LogGroup"), {"RetentionInDays": 7}),
        (of("AWS::SNS::Topic", KmsMasterKeyId="k"), {"KmsMasterKeyId": None}),
        (of("AWS::Budgets::Budget", NotificationsWithSubscribers=["a", "b"]), {"NotificationsWithSubscribers": ["a"]}),
        (TEMPLATE, {"LaunchTemplateData__MetadataOptions__HttpTokens": "optional"}),
        (TEMPLATE, {"LaunchTemplateData__MetadataOptions__HttpPutResponseHopLimit": 2}),
        (TEMPLATE, {"LaunchTemplateData__BlockDeviceMappings": [{"Ebs": {"Encrypted": False}}]}),
    ],
)
def test_a_lower_protection(pairs: Pairs, resource: dict[str, Any], properties: dict[str, Any]) -> None:
    assert dangers(pairs.edited(resource, **properties)) == {Danger.LOWER_PROTECTION}


@pytest.mark.parametrize(
    ("resource", "properties"),
    [
        (BUCKET, {"LifecycleConfiguration": expiring(60)}),
        (BUCKET, {"LifecycleConfiguration": None}),
        (REPOSITORY, {"LifecyclePolicy": images(30)}),
        (KEY, {"PendingWindowInDays": 30}),
        (of("AWS::Logs::LogGroup", RetentionInDays=7), {"RetentionInDays": 30}),
        (BACKED_UP, {"LustreConfiguration__AutomaticBackupRetentionDays": 30}),
    ],
)
def test_a_higher_protection_is_harmless(pairs: Pairs, resource: dict[str, Any], properties: dict[str, Any]) -> None:
    assert dangers(pairs.edited(resource, **properties)) == set()


@pytest.mark.parametrize("name", ["DeletionPolicy", "UpdateReplacePolicy"])
def test_a_retention_policy_that_goes(pairs: Pairs, name: str) -> None:
    kept, deleted = {**BUCKET, name: "Retain"}, {**BUCKET, name: "Delete"}
    assert dangers(pairs.changes({"A": kept}, {"A": deleted})) == {Danger.LOWER_PROTECTION}
    assert dangers(pairs.changes({"A": kept}, {"A": BUCKET})) == {Danger.LOWER_PROTECTION}
    assert dangers(pairs.changes({"A": deleted}, {"A": kept})) == set()


def test_a_network_add_on_that_no_longer_enforces_policies(pairs: Pairs) -> None:
    addon = of("AWS::EKS::Addon", AddonName="vpc-cni", ConfigurationValues='{"enableNetworkPolicy": "true"}')
    assert dangers(pairs.edited(addon, ConfigurationValues='{"enableNetworkPolicy": "false"}')) == {
        Danger.LOOSER_ISOLATION
    }
    assert dangers(pairs.edited(addon, ConfigurationValues='{"enableNetworkPolicy":"true"}')) == set()


def test_a_start_script_of_nodes_is_read_by_a_person(pairs: Pairs) -> None:
    assert Danger.RUNS_CODE in dangers(pairs.edited(TEMPLATE, LaunchTemplateData__UserData="IyEvYmluL3No"))


def test_an_emptier_that_goes_while_the_bucket_keeps_its_tag_deletes_all_objects(pairs: Pairs) -> None:
    tagged = of("AWS::S3::Bucket", Tags=[{"Key": "aws-cdk:auto-delete-objects", "Value": "true"}])
    emptier = of("Custom::S3AutoDeleteObjects", BucketName={"Ref": "Data"})
    before = {"Data": tagged, "Emptier": emptier}
    [change] = [each for each in pairs.changes(before, {"Data": tagged}) if each.dangers]
    assert (change.effect, set(change.dangers)) == (Effect.DATA_LOST, {Danger.DATA_LOSS})
    assert dangers(pairs.changes(before, {"Data": tagged, "Renamed": emptier})) == {Danger.DATA_LOSS}
    assert dangers(pairs.changes(before, {"Data": of("AWS::S3::Bucket")})) == set()


EMPTIERS_ROLE = "CustomS3AutoDeleteObjectsCustomResourceProviderRole3B1BD092"


def environment(*, protect: bool) -> dict[str, Any]:
    policies = (
        {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
        if protect
        else {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}
    )
    resources = {
        "Data": of("AWS::S3::Bucket", policies),
        "FileSystem": of("AWS::FSx::FileSystem", policies),
        "Image": of("AWS::ECR::Repository", policies, EmptyOnDelete=not protect),
    }
    statements: list[dict[str, Any]] = [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}]
    if not protect:
        statements.append(
            {
                "Effect": "Allow",
                "Principal": {"AWS": {"Fn::GetAtt": [EMPTIERS_ROLE, "Arn"]}},
                "Action": ["s3:PutBucketPolicy", "s3:GetBucket*", "s3:List*", "s3:DeleteObject*"],
                "Resource": {"Fn::GetAtt": ["Data", "Arn"]},
            }
        )
        resources[EMPTIERS_ROLE] = of("AWS::IAM::Role")
        resources["Emptier"] = of("Custom::S3AutoDeleteObjects", BucketName={"Ref": "Data"})
    document = {"Statement": statements}
    resources["Policy"] = of("AWS::S3::BucketPolicy", Bucket={"Ref": "Data"}, PolicyDocument=document)
    return {"Resources": resources}


def lifted(pairs: Pairs, after: dict[str, Any], *, protected: bool = False) -> list[Any]:
    base = pairs.assembly({"storage": environment(protect=True)}, {"storage": {"terminationProtection": True}})
    head = pairs.assembly({"storage": after}, {"storage": {"terminationProtection": protected}})
    return [each for each in changes(Pair("dev", base, head)) if each.dangers]


def test_protect_false_confirms_what_it_lifts(pairs: Pairs) -> None:
    found = lifted(pairs, environment(protect=False))
    assert {each.resource for each in found} == {
        "Stack storage",
        "AWS::S3::Bucket Data",
        "AWS::S3::BucketPolicy Policy",
        "AWS::FSx::FileSystem FileSystem",
        "AWS::ECR::Repository Image",
        "Custom::S3AutoDeleteObjects Emptier",
    }
    assert {each.confirmed_by for each in found} == {"protect"}


def test_a_part_of_the_pattern_confirms_nothing(pairs: Pairs) -> None:
    one_is_kept = environment(protect=False)
    one_is_kept["Resources"]["FileSystem"] = environment(protect=True)["Resources"]["FileSystem"]
    for found in (lifted(pairs, one_is_kept), lifted(pairs, environment(protect=False), protected=True)):
        assert found
        assert {each.confirmed_by for each in found} == {""}


def test_protect_false_does_not_confirm_another_protection(pairs: Pairs) -> None:
    after = environment(protect=False)
    after["Resources"]["FileSystem"] = of(
        "AWS::FSx::FileSystem", {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}, SubnetIds=["b"]
    )
    found = lifted(pairs, after)
    assert [each.confirmed_by for each in found if Danger.DATA_LOSS in each.dangers] == [""]
