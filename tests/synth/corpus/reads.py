"""Pairs of new roles that read secrets and keys, and of what only resembles such a right."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import add_role, allow
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER = Danger.WIDER_PERMISSIONS
PARAMETERS = "arn:aws:ssm:us-west-2:111122223333:parameter"


def _secret(name: str) -> str:
    return f"arn:aws:secretsmanager:us-west-2:111122223333:secret:{name}"


def _reads_all(action: str) -> None:
    """Add the pair of a new role that may call the action on everything."""

    @destructive(
        f"a new role may call {action} on all",
        Category.PERMISSIONS,
        expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=(action,)),
    )
    def _(edit: Edit) -> None:
        add_role(edit, "ray", "Nightly", allow(action, "*"))


for each in ("secretsmanager:Get*", "ssm:GetParameter*", "secretsmanager:*Value", "ssm:Get*"):
    _reads_all(each)


@destructive(
    "a new role reads the objects of all buckets",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=("s3:Get*",)),
)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("s3:Get*", "arn:aws:s3:::*/*"))


@harmless("a new role reads the objects of a bucket", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("s3:Get*", "arn:aws:s3:::nightly/*"))


@destructive(
    "a new role reads each secret of the account",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=("secretsmanager:GetSecretValue",)),
)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("secretsmanager:GetSecretValue", _secret("*")))


@destructive(
    "a new role decrypts with each key of the account",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=("kms:De*",)),
)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("kms:De*", "arn:aws:kms:us-west-2:111122223333:key/*"))


@destructive(
    "a new role deletes file systems, in fewer letters",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=("fsx:D*",)),
)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("fsx:D*", "arn:aws:fsx:us-west-2:111122223333:file-system/*"))


@destructive(
    "a new role has the managed policy for all secrets",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED, dangers=WIDER, words=("SecretsManagerReadWrite",)),
)
def _(edit: Edit) -> None:
    policies = ["arn:aws:iam::aws:policy/SecretsManagerReadWrite"]
    add_role(edit, "ray", "Nightly", ManagedPolicyArns=policies)


@harmless("a new role describes secrets", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow(["secretsmanager:Describe*", "secretsmanager:List*"], "*"))


@harmless("a new role reads one secret", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    # Secrets Manager appends six characters to a secret's name.
    add_role(edit, "ray", "Nightly", allow("secretsmanager:Get*", _secret("nightly-??????")))


@harmless("a new role reads the parameters of one path", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("ssm:GetParameter*", f"{PARAMETERS}/nightly/*"))


@harmless("a new role reads the public parameters of AWS", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("ssm:GetParameter", "arn:aws:ssm:us-west-2::parameter/aws/service/*"))


@harmless("a new role describes keys", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow(["kms:Describe*", "kms:List*", "kms:GetKey*"], "*"))


@harmless("a new role describes file systems", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("fsx:Describe*", "*"))


@harmless("a new role has the managed policy to write logs", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    policies = ["arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"]
    add_role(edit, "ray", "Nightly", ManagedPolicyArns=policies)


@harmless("a new role reads metrics", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    add_role(edit, "ray", "Nightly", allow("cloudwatch:Get*", "*"))
