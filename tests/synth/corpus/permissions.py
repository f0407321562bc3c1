"""IAM policies and roles, access entries, Kubernetes roles."""

import json

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

POLICY = "AWS::IAM::Policy"
WIDER = Danger.WIDER_PERMISSIONS


@destructive(
    "the nodes' role is trusted by a whole account",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ExecutionRole", Effect.IN_PLACE, dangers=WIDER, words=("444455556666",)),
)
def _(edit: Edit) -> None:
    role = edit.properties("hyperpod", "AWS::IAM::Role", "ExecutionRole")
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    statement["Principal"]["AWS"] = "arn:aws:iam::444455556666:root"


@destructive(
    "a policy no longer denies plain HTTP",
    Category.PERMISSIONS,
    expect("AWS::S3::BucketPolicy Data", Effect.IN_PLACE, dangers=WIDER, words=("den",)),
)
def _(edit: Edit) -> None:
    document = edit.properties("storage", "AWS::S3::BucketPolicy", "DataPolicy")["PolicyDocument"]
    allowed = [each for each in document["Statement"] if each["Effect"] != "Deny"]
    assert len(allowed) == len(document["Statement"]) - 1
    document["Statement"] = allowed


@destructive(
    "the reaper may also read secrets",
    Category.PERMISSIONS,
    expect("Role ray/ray-reaper", Effect.IN_PLACE, dangers=WIDER, words=("secrets",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/ray-reaper") as role:
        role["rules"][0]["resources"].append("secrets")


@harmless("the statements of a policy are in another order", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    document = edit.properties("hyperpod", POLICY, "ExecutionRoleDefaultPolicy")["PolicyDocument"]
    document["Statement"].reverse()
    document["Statement"][-1]["Action"].reverse()


def _split(edit: Edit) -> None:
    document = edit.properties("network", POLICY, "FlowLogsIAMRoleDefaultPolicy")["PolicyDocument"]
    [statement] = document["Statement"]
    document["Statement"] = [statement | {"Action": action} for action in statement["Action"]]


@harmless("statements that allow the same are merged", Category.PERMISSIONS, worst=Effect.IN_PLACE, prepare=_split)
def _(edit: Edit) -> None:
    document = edit.properties("network", POLICY, "FlowLogsIAMRoleDefaultPolicy")["PolicyDocument"]
    actions = [each["Action"] for each in document["Statement"]]
    assert len(actions) > 1
    document["Statement"] = [document["Statement"][0] | {"Action": sorted(actions, reverse=True)}]


@harmless(
    "the role of the reaper may no longer delete pods",
    Category.PERMISSIONS,
    expect("Role ray/ray-reaper", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/ray-reaper") as role:
        role["rules"][0]["verbs"].remove("delete")


@harmless(
    # A danger is that *a policy allows more*, or that *a role is trusted by more*: no role that exists gets wider. The
    # role of a new service account can be taken by that account alone, and may read one prefix.
    "a new service account has a role of its own with narrow rights",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ReaderRole", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    role = json.loads(json.dumps(edit.properties("ray", "AWS::IAM::Role", "RayRole")))
    role["AssumeRolePolicyDocument"]["Fn::Sub"][1]["ServiceAccount"] = "reader"
    [policy] = role["Policies"]
    objects = policy["PolicyDocument"]["Statement"][-1]
    policy["PolicyDocument"]["Statement"] = [objects | {"Action": "s3:GetObject"}]
    edit.add("ray", "ReaderRole", "AWS::IAM::Role", **role)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "ray"}}
    edit.apply("ray", "ReaderAccount", account | {"automountServiceAccountToken": False})
