"""What newly acts on existing resources: schedules, roles, images, copies, deletions that are carried over."""

from typing import Any

import pytest

from ops.review.model import Danger
from tests.unit.ops.review.cloudformation.pairs import ACCOUNT, Pairs, dangers, of

KMS = "BucketEncryption__ServerSideEncryptionConfiguration"
WIDER, LOWER = Danger.WIDER_PERMISSIONS, Danger.LOWER_PROTECTION


def encrypted(key: str) -> list[dict[str, Any]]:
    return [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}]


BUCKET = of("AWS::S3::Bucket", BucketEncryption={"ServerSideEncryptionConfiguration": encrypted("own")})
ASSOCIATION = of(
    "AWS::FSx::DataRepositoryAssociation",
    DataRepositoryPath="s3://own/data",
    S3={"AutoExportPolicy": {"Events": ["NEW"]}, "AutoImportPolicy": {"Events": ["NEW"]}},
)
NODES = of("AWS::EKS::Nodegroup", ClusterName="c", Subnets=["s"])
TEMPLATE = of("AWS::EC2::LaunchTemplate", LaunchTemplateData={"ImageId": "ami-1", "EbsOptimized": False})
IDENTITY = of("AWS::EKS::PodIdentityAssociation", RoleArn="r", Namespace="ray", ServiceAccount="ray")


@pytest.mark.parametrize(
    ("resource", "property", "value", "danger"),
    [
        (BUCKET, KMS, encrypted("another"), LOWER),
        (BUCKET, "ReplicationConfiguration", {"Role": "r", "Rules": []}, LOWER),
        (BUCKET, "AccelerateConfiguration", {"AccelerationStatus": "Enabled"}, None),
        (ASSOCIATION, "S3__AutoExportPolicy__Events", ["NEW", "DELETED"], LOWER),
        (ASSOCIATION, "S3__AutoImportPolicy__Events", ["NEW", "DELETED"], LOWER),
        (ASSOCIATION, "S3__AutoImportPolicy__Events", ["NEW", "CHANGED"], None),
        (ASSOCIATION, "DataRepositoryPath", "s3://another/data", LOWER),
        (ASSOCIATION, "DataRepositoryPath", "s3://own/other", None),
        (NODES, "RemoteAccess", {"Ec2SshKey": "mine"}, Danger.OPENED_PORT),
        (NODES, "Labels", {"a": "b"}, None),
        (TEMPLATE, "LaunchTemplateData__ImageId", "ami-2", Danger.RUNS_CODE),
        (TEMPLATE, "LaunchTemplateData__KeyName", "mine", WIDER),
        (TEMPLATE, "LaunchTemplateData__EbsOptimized", True, None),
        (IDENTITY, "ServiceAccount", "another", WIDER),
        (of("AWS::Events::Rule", State="ENABLED"), "State", "DISABLED", LOWER),
        (of("AWS::CloudWatch::Alarm", Threshold=1), "ActionsEnabled", False, LOWER),
        (of("AWS::CloudWatch::Alarm", Threshold=1, ComparisonOperator="GreaterThanThreshold"), "Threshold", 2, LOWER),
        (of("AWS::CloudWatch::Alarm", Threshold=1, ComparisonOperator="GreaterThanThreshold"), "Threshold", 0, None),
        (of("AWS::CloudWatch::Alarm", Threshold=1, ComparisonOperator="LessThanThreshold"), "Threshold", 0, LOWER),
        (of("AWS::CloudWatch::Alarm", Threshold=1, ComparisonOperator="LessThanThreshold"), "Threshold", 2, None),
    ],
)
def test_a_changed_property_has_its_danger(
    pairs: Pairs, resource: dict[str, Any], property: str, value: object, danger: Danger | None
) -> None:
    assert dangers(pairs.edited(resource, **{property: value})) == ({danger} if danger else set())


def trusted(principal: dict[str, Any] | str, condition: dict[str, Any] | None = None) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole", "Condition": condition or {}}
    return of("AWS::IAM::Role", AssumeRolePolicyDocument={"Statement": [statement]})


def may(action: str) -> dict[str, Any]:
    policy = {"Statement": [{"Effect": "Allow", "Action": action, "Resource": "arn:aws:s3:::own"}]}
    return trusted({"Service": "lambda.amazonaws.com"}) | {
        "Properties": {"Policies": [{"PolicyName": "own", "PolicyDocument": policy}]}
    }


@pytest.mark.parametrize(
    ("created", "danger"),
    [
        (trusted({"AWS": {"Fn::Join": [":", ["arn:aws:iam:", "999999999999", "root"]]}}), WIDER),
        (trusted({"Federated": "arn:aws:iam::999999999999:saml-provider/a"}), WIDER),
        (trusted("*", {"StringEquals": {"aws:RequestedRegion": "us-west-2"}}), WIDER),
        (trusted("*", {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}), None),
        (trusted({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}), None),
        (trusted({"Service": "lambda.amazonaws.com"}), None),
        (may("fsx:DeleteFileSystem"), WIDER),
        (may("sts:AssumeRole"), WIDER),
        (may("iam:AttachRolePolicy"), WIDER),
        (may("s3:DeleteObject"), None),
        (may("ec2:DeleteNetworkInterface"), None),
        (of("AWS::SSM::Association", Name="AWS-RunShellScript"), Danger.UNKNOWN),
        (of("AWS::Logs::SubscriptionFilter", FilterPattern=""), Danger.UNKNOWN),
        (of("AWS::CloudWatch::Alarm", Threshold=1), None),
    ],
)
def test_a_new_resource_is_dangerous_if_it_may_act_on_what_is_there(
    pairs: Pairs, created: dict[str, Any], danger: Danger | None
) -> None:
    topic = of("AWS::SNS::Topic")
    assert dangers(pairs.changes({"Old": topic}, {"Old": topic, "New": created})) == ({danger} if danger else set())


@pytest.mark.parametrize("created", [may("fsx:DeleteFileSystem"), of("AWS::SSM::Association", Name="a")])
def test_in_a_new_environment_there_is_nothing_to_act_on(pairs: Pairs, created: dict[str, Any]) -> None:
    assert dangers(pairs.changes(None, {"New": created})) == set()
