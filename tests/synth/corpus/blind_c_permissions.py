"""Pairs by a third author who had not seen the judges: what roles, keys and tokens allow."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import POLICY, ROLE, WATCHED, add_role, allow, statements, that_allows
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER = Danger.WIDER_PERMISSIONS
NODES = "ExecutionRoleDefaultPolicy"


def _trust(edit: Edit, part: str, construct: str) -> list[Any]:
    """Return the text of a trust policy, and what is substituted in it."""
    found: list[Any] = edit.properties(part, ROLE, construct)["AssumeRolePolicyDocument"]["Fn::Sub"]
    return found


@destructive(
    "a new role may do everything except IAM",
    Category.PERMISSIONS,
    expect(f"{ROLE} Reports", Effect.CREATED, dangers=WIDER, words=("iam:*",)),
)
def _(edit: Edit) -> None:
    add_role(edit, "storage", "Reports", {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"})


@destructive(
    "every service account of its namespace gets the role of the image build",
    Category.PERMISSIONS,
    expect(f"{ROLE} ImageBuilderRole", Effect.IN_PLACE, dangers=WIDER, words=("system:serviceaccount",)),
)
def _(edit: Edit) -> None:
    trust = _trust(edit, "ray", "ImageBuilderRole")
    trust[0] = trust[0].replace("StringEquals", "StringLike")
    trust[1]["ServiceAccount"] = "*"


@destructive(
    "the role of the FSx driver accepts a token for any audience",
    Category.PERMISSIONS,
    expect(f"{ROLE} FsxCsiRole", Effect.IN_PLACE, dangers=WIDER, words=(":aud",)),
)
def _(edit: Edit) -> None:
    trust = _trust(edit, "platform", "FsxCsiRole")
    line = '      "${Issuer}:aud": "sts.amazonaws.com",\n'
    assert line in trust[0]
    trust[0] = trust[0].replace(line, "")


@destructive(
    "another account decrypts the notifications",
    Category.PERMISSIONS,
    expect("AWS::KMS::Key NotificationsKey", Effect.IN_PLACE, dangers=WIDER, words=("444455556666",)),
)
def _(edit: Edit) -> None:
    statement = edit.properties("hyperpod", "AWS::KMS::Key")["KeyPolicy"]["Statement"][1]
    statement["Principal"]["AWS"] = "arn:aws:iam::444455556666:root"


@destructive(
    "a new policy lets nodes pass any role",
    Category.PERMISSIONS,
    expect("AWS::IAM::", Effect.CREATED, Effect.IN_PLACE, dangers=WIDER, words=("iam:PassRole",)),
)
def _(edit: Edit) -> None:
    document = {"Version": "2012-10-17", "Statement": [allow("iam:PassRole", "*")]}
    role = {"Ref": edit.find("hyperpod", ROLE, "ExecutionRole")[0]}
    edit.add("hyperpod", "Passing", POLICY, PolicyName="passing", PolicyDocument=document, Roles=[role])


@destructive(
    "Alertmanager uses its key without SNS",
    Category.PERMISSIONS,
    # A direct request to KMS has no kms:ViaService, and IfExists is true for a missing key.
    expect(f"{ROLE} AlertmanagerRole", Effect.IN_PLACE, dangers=WIDER, words=("kms:ViaService",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "ray", "AlertmanagerRole", "kms:Decrypt")
    statement["Condition"] = {"StringEqualsIfExists": statement["Condition"]["StringEquals"]}


@harmless(
    "nodes pull images from repositories of their own account only",
    Category.PERMISSIONS,
    expect("AWS::IAM::", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "hyperpod", NODES, "ecr:BatchGetImage")
    statement["Condition"] = {"StringEquals": {"aws:ResourceAccount": "111122223333"}}


@harmless(
    "nodes pull images from one region only",
    Category.PERMISSIONS,
    expect("AWS::IAM::", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "hyperpod", NODES, "ecr:BatchGetImage")
    assert statement["Resource"] == "arn:aws:ecr:*:*:repository/*"
    statement["Resource"] = "arn:aws:ecr:us-west-2:*:repository/*"


@harmless(
    "the role of the flow logs gets a permissions boundary",
    Category.PERMISSIONS,
    expect(f"{ROLE} FlowLogs", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("network", ROLE)["PermissionsBoundary"] = "arn:aws:iam::111122223333:policy/Boundary"


def _sessions_of(seconds: int, edit: Edit) -> None:
    edit.properties("ray", ROLE, "RayRole")["MaxSessionDuration"] = seconds


@harmless(
    "sessions of Ray's role last an hour instead of twelve",
    Category.PERMISSIONS,
    expect(f"{ROLE} RayRole", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    prepare=lambda edit: _sessions_of(43_200, edit),
)
def _(edit: Edit) -> None:
    _sessions_of(3600, edit)


@harmless(
    "Ray may no longer delete finished models",
    Category.PERMISSIONS,
    expect(f"{ROLE} RayRole", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    models = "arn:aws:s3:::rayhp-dev-data-111122223333-us-west-2/ray/models/*"
    statements(edit, "ray", "RayRole").append({"Effect": "Deny", "Action": "s3:DeleteObject*", "Resource": models})
