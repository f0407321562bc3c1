"""Pairs by a third author who had not seen the judges: data that is lost, clusters that are upgraded."""

import json
from collections.abc import Callable
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER, LOSS = Danger.LOWER_PROTECTION, Danger.DATA_LOSS
BUCKET = "AWS::S3::Bucket"
FILE_SYSTEM = "AWS::FSx::FileSystem"
REPOSITORY = "AWS::ECR::Repository"
EKS = "AWS::EKS::Cluster"


def _expiry_of_images(edit: Edit, change: Callable[[list[Any]], None]) -> None:
    """Change the rules by which the registry deletes images."""
    policy = edit.properties("storage", REPOSITORY)["LifecyclePolicy"]
    content = json.loads(policy["LifecyclePolicyText"])
    change(content["rules"])
    policy["LifecyclePolicyText"] = json.dumps(content)


@destructive(
    "the file system is encrypted with another key",
    Category.DATA,
    # CloudFormation cannot change KmsKeyId: it creates an empty file system, and deletes this one.
    expect(f"{FILE_SYSTEM} FileSystem", Effect.DATA_LOST, dangers=LOSS, words=("KmsKeyId",)),
)
def _(edit: Edit) -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/0f0f0f0f-12ab-34cd-56ef-1234567890ab"
    edit.properties("storage", FILE_SYSTEM)["KmsKeyId"] = key


@destructive(
    "checkpoints are deleted after two weeks",
    Category.DATA,
    expect(f"{BUCKET} Data", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOSS, LOWER), words=("14",)),
)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"]
    rules.append({"ExpirationInDays": 14, "Prefix": "ray/checkpoints/", "Status": "Enabled"})


@destructive(
    "the registry keeps only the newest image",
    Category.DATA,
    expect(
        f"{REPOSITORY} Image",
        Effect.IN_PLACE,
        Effect.DATA_LOST,
        dangers=(LOSS, LOWER),
        words=("LifecyclePolicy",),
    ),
)
def _(edit: Edit) -> None:
    newest = {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 1}
    rule = {"rulePriority": 2, "description": "Tidy up", "selection": newest, "action": {"type": "expire"}}
    _expiry_of_images(edit, lambda rules: rules.append(rule))


@destructive(
    "Kubernetes goes back by one minor version",
    Category.CLUSTERS,
    expect(f"{EKS} Cluster", Effect.IN_PLACE, Effect.REFUSED, dangers=Danger.VERSION_SKIP, words=("1.34",)),
)
def _(edit: Edit) -> None:
    assert edit.properties("eks", EKS)["Version"] == "1.35"
    edit.properties("eks", EKS)["Version"] = "1.34"


@destructive(
    "a public policy may be put on the bucket of lifecycle scripts",
    Category.PROTECTION,
    expect(
        f"{BUCKET} Lifecycle",
        Effect.IN_PLACE,
        dangers=(Danger.PUBLIC_ENDPOINT, LOWER),
        words=("BlockPublicPolicy",),
    ),
)
def _(edit: Edit) -> None:
    edit.properties("storage", BUCKET, "Lifecycle")["PublicAccessBlockConfiguration"]["BlockPublicPolicy"] = False


@harmless(
    "the file system has twice the capacity",
    Category.DATA,
    expect(f"{FILE_SYSTEM} FileSystem", Effect.IN_PLACE, words=("2400",)),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("storage", FILE_SYSTEM)["StorageCapacity"] = 2400


@harmless(
    "earlier versions of lifecycle scripts are kept for a quarter",
    Category.DATA,
    expect(f"{BUCKET} Lifecycle", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    [rule] = edit.properties("storage", BUCKET, "Lifecycle")["LifecycleConfiguration"]["Rules"]
    rule["NoncurrentVersionExpiration"]["NoncurrentDays"] = 90


@harmless(
    "untagged layers are kept for a month",
    Category.DATA,
    expect(f"{REPOSITORY} Image", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    _expiry_of_images(edit, lambda rules: rules[0]["selection"].update(countNumber=30))


@harmless(
    "nobody can delete the EKS cluster by mistake",
    Category.CLUSTERS,
    expect(f"{EKS} Cluster", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("eks", EKS)["DeletionProtection"] = True


@harmless(
    "the cluster has three servers of names",
    Category.CLUSTERS,
    expect("AWS::EKS::Addon AddOn", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Addon", "AddOncoredns")["ConfigurationValues"] = '{"replicaCount": 3}'
