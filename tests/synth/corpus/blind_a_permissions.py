"""Pairs by an author who had not seen the judges, the open half: roles and statements that are broad in disguise."""

import copy

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import ROLE, add_role, allow, statements, that_allows
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER = Danger.WIDER_PERMISSIONS


@destructive(
    "a new role may take each role with a word in the middle of its name",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=("sts:AssumeRole",)),
)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("sts:AssumeRole", "arn:aws:iam::*:role/*Admin*"))


@destructive(
    "the nodes read each bucket with a word in the middle of its name",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy ExecutionRole", Effect.IN_PLACE, dangers=WIDER, words=("s3:GetObject", "*-data-*")),
)
def _(edit: Edit) -> None:
    that_allows(edit, "hyperpod", "ExecutionRoleDefaultPolicy", "s3:GetObject")["Resource"] = "arn:aws:s3:::*-data-*/*"


@destructive(
    "Ray lists the data of everybody",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=WIDER, words=("s3:ListBucket",)),
)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "ray", "RayRole", "s3:ListBucket")
    assert statement["Condition"] == {"StringLikeIfExists": {"s3:prefix": "ray/*"}}
    statement["Condition"] = {"StringLikeIfExists": {"s3:prefix": ["ray/*", "*"]}}


@destructive(
    "Ray may overwrite the packages that other jobs load",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=WIDER, words=("s3:PutObject", "ray/packages")),
)
def _(edit: Edit) -> None:
    [denied] = [each for each in statements(edit, "ray", "RayRole") if each["Effect"] == "Deny"]
    denied["Action"] = ["s3:DeleteObject"]


@destructive(
    "the nodes get a managed policy for all buckets",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ExecutionRole", Effect.IN_PLACE, dangers=WIDER, words=("AmazonS3FullAccess",)),
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", ROLE, "ExecutionRole")["ManagedPolicyArns"] = [
        "arn:aws:iam::aws:policy/AmazonS3FullAccess"
    ]


@harmless(
    "a new role writes metrics of one namespace",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    own = {"StringEquals": {"cloudwatch:namespace": "Nightly"}}
    add_role(edit, "ray", "Nightly", allow("cloudwatch:PutMetricData", "*", Condition=own))


@harmless("the nodes may no longer write metrics over plain HTTP", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    all = statements(edit, "hyperpod", "ExecutionRoleDefaultPolicy")
    plain = {"Bool": {"aws:SecureTransport": "false"}}
    all.append({"Effect": "Deny", "Action": "cloudwatch:PutMetricData", "Resource": "*", "Condition": plain})


@harmless("the nodes write their logs from the organisation only", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "hyperpod", "ExecutionRoleDefaultPolicy", "logs:PutLogEvents")
    statement["Condition"] = {"StringEquals": {"aws:ResourceAccount": "111122223333"}}


@harmless("an action is listed twice", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "ray", "ImageBuilderRole", "ecr:PutImage")
    statement["Action"] = [*reversed(statement["Action"]), "ecr:PutImage"]


@harmless("SageMaker takes the nodes' role for this account only", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    document = edit.properties("hyperpod", ROLE, "ExecutionRole")["AssumeRolePolicyDocument"]
    document["Statement"][0]["Condition"] = {"StringEquals": {"aws:SourceAccount": "111122223333"}}


@harmless("the nodes pull images of one region only", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "hyperpod", "ExecutionRoleDefaultPolicy", "ecr:BatchGetImage")
    assert statement["Resource"] == "arn:aws:ecr:*:*:repository/*"
    statement["Resource"] = "arn:aws:ecr:us-west-2:*:repository/*"


@harmless("a statement is divided into two of one action each", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    all = statements(edit, "ray", "RayRole")
    statement = that_allows(edit, "ray", "RayRole", "s3:AbortMultipartUpload")
    other = copy.deepcopy(statement)
    other["Action"] = statement["Action"][2:]
    statement["Action"] = statement["Action"][:2]
    all.append(other)


@destructive(
    "a new role may start functions with whatever role",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=("iam:Pass*",)),
)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow(["iam:Pass*", "lambda:Create*"], "arn:aws:*:*:111122223333:*"))
