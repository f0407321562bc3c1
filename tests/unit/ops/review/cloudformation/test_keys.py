"""Changes of KMS keys: what each does to its resource, and which of them the gate stops."""

import copy
from typing import Any

import pytest

from ops.review.model import Danger, Effect
from tests.unit.ops.review.cloudformation.pairs import Pairs, dangers, of, worst

OWN, ANOTHER = (f"arn:aws:kms:us-west-2:111122223333:key/{id}{'0' * 35}" for id in "ab")
DATA, CLUSTER, LOWER = Danger.DATA_LOSS, Danger.CLUSTER_LOSS, Danger.LOWER_PROTECTION


def bucket(key: str | None) -> dict[str, Any]:
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key} if key else {"SSEAlgorithm": "AES256"}
    encryption = {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": default}]}
    return of("AWS::S3::Bucket", BucketName="data", BucketEncryption=encryption)


def repository(key: str | None) -> dict[str, Any]:
    encryption = {"EncryptionConfiguration": {"EncryptionType": "KMS", "KmsKey": key}} if key else {}
    return of("AWS::ECR::Repository", RepositoryName="image", **encryption)


def cluster(key: str | None) -> dict[str, Any]:
    secrets = {"EncryptionConfig": [{"Provider": {"KeyArn": key}, "Resources": ["secrets"]}]} if key else {}
    return of("AWS::EKS::Cluster", Name="eks", **secrets)


def nodes(key: str | None) -> dict[str, Any]:
    ebs = {"VolumeSize": 100, "Encrypted": True, **({"KmsKeyId": key} if key else {})}
    return of(
        "AWS::EC2::LaunchTemplate",
        LaunchTemplateData={"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": ebs}]},
    )


def keyed(kind: str, name: str) -> Any:
    return lambda key: of(kind, **({name: key} if key else {}))


RESOURCES = {
    "file system": (keyed("AWS::FSx::FileSystem", "KmsKeyId"), Effect.DATA_LOST, DATA),
    "repository": (repository, Effect.DATA_LOST, DATA),
    "EKS cluster": (cluster, Effect.REPLACED, CLUSTER),
    "bucket": (bucket, Effect.IN_PLACE, LOWER),
    "log group": (keyed("AWS::Logs::LogGroup", "KmsKeyId"), Effect.IN_PLACE, LOWER),
    "topic": (keyed("AWS::SNS::Topic", "KmsMasterKeyId"), Effect.IN_PLACE, LOWER),
    "system nodes": (nodes, Effect.NODES_REPLACED, LOWER),
}
every_resource = pytest.mark.parametrize(("make", "effect", "danger"), RESOURCES.values(), ids=RESOURCES)


@every_resource
@pytest.mark.parametrize("after", [None, ANOTHER], ids=["removed", "another"])
def test_a_key_that_goes_or_changes_stops(
    pairs: Pairs, make: Any, effect: Effect, danger: Danger, after: str | None
) -> None:
    found = pairs.changes({"Thing": make(OWN)}, {"Thing": make(after)})
    assert worst(found) is effect
    assert danger in dangers(found)


@every_resource
def test_a_first_key_is_harmless_only_where_it_is_in_place(
    pairs: Pairs, make: Any, effect: Effect, danger: Danger
) -> None:
    found = pairs.changes({"Thing": make(None)}, {"Thing": make(OWN)})
    assert worst(found) is effect
    # Nodes: by its name alone, a key from outside may be anybody's.
    assert dangers(found) == (set() if effect is Effect.IN_PLACE else {danger})


def role(**condition: Any) -> dict[str, Any]:
    allow = {"Effect": "Allow", "Action": "kms:CreateGrant", "Resource": OWN, "Condition": condition}
    return of("AWS::IAM::Role", AssumeRolePolicyDocument={}, Policies=[{"PolicyDocument": {"Statement": [allow]}}])


THROUGH = {"StringEquals": {"kms:ViaService": "fsx.us-west-2.amazonaws.com"}}
FOR_AWS = {"Bool": {"kms:GrantIsForAWSResource": "true"}}


@pytest.mark.parametrize("left", [THROUGH, FOR_AWS, {}])
def test_a_right_on_a_key_that_loses_a_condition_is_wider(pairs: Pairs, left: dict[str, Any]) -> None:
    before, after = role(**THROUGH, **FOR_AWS), role(**left)
    assert dangers(pairs.changes({"Role": before}, {"Role": after})) == {Danger.WIDER_PERMISSIONS}
    assert dangers(pairs.changes({"Role": after}, {"Role": before})) == set()


LOGS = {
    "Effect": "Allow",
    "Principal": {"Service": "logs.us-west-2.amazonaws.com"},
    "Action": "kms:Decrypt",
    "Resource": "*",
    "Condition": {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": "arn:aws:logs:us-west-2:111122223333:log-group:*"}},
}


@pytest.mark.parametrize(
    "change",
    [
        {"Condition": {}},
        {"Action": "kms:*"},
        {"Principal": {"AWS": "*"}},
        {"Principal": {"Service": ["logs.us-west-2.amazonaws.com", "ec2.amazonaws.com"]}},
    ],
    ids=["without condition", "more actions", "everyone", "another service"],
)
def test_a_wider_key_policy_stops(pairs: Pairs, change: dict[str, Any]) -> None:
    before = of("AWS::KMS::Key", KeyPolicy={"Statement": [LOGS]})
    after = copy.deepcopy(before)
    after["Properties"]["KeyPolicy"]["Statement"] = [{**LOGS, **change}]
    assert dangers(pairs.changes({"Key": before}, {"Key": after})) == {Danger.WIDER_PERMISSIONS}
