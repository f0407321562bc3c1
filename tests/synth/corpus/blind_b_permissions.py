"""Pairs by an author who had not seen the judges, the held-out half: roles and statements broad in disguise."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import OBSERVED, POLICY, ROLE, add_role, allow, statements, that_allows
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER = Danger.WIDER_PERMISSIONS
ON_EVENT = "ProviderOnEventServiceRoleDefaultPolicy"


def _bounded(edit: Edit, role: str) -> None:
    edit.properties("ray", ROLE, role)["PermissionsBoundary"] = "arn:aws:iam::111122223333:policy/Boundary"


@destructive(
    "the image build decrypts with each key",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ImageBuilderRole", Effect.IN_PLACE, dangers=WIDER, words=("kms:Decrypt",)),
)
def _(edit: Edit) -> None:
    statements(edit, "ray", "ImageBuilderRole").append(allow("kms:Decrypt", "*"))


@destructive(
    "a managed policy of one's own lets the nodes pass roles",
    Category.PERMISSIONS,
    expect("AWS::IAM::ManagedPolicy Extra", Effect.CREATED, dangers=WIDER, words=("iam:PassRole",)),
)
def _(edit: Edit) -> None:
    document = {"Version": "2012-10-17", "Statement": [allow("iam:PassRole", "arn:aws:iam::111122223333:role/*")]}
    roles = [{"Ref": edit.find("hyperpod", ROLE, "ExecutionRole")[0]}]
    edit.add("hyperpod", "Extra", "AWS::IAM::ManagedPolicy", PolicyDocument=document, Roles=roles)


@destructive(
    "the cluster's function passes the role whenever no service is named",
    Category.PERMISSIONS,
    # The operators that end with IfExists are true if the key is not in the request.
    expect("AWS::IAM::Policy ProviderOnEvent", Effect.IN_PLACE, dangers=WIDER, words=("PassRole",)),
)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "hyperpod", ON_EVENT, "iam:PassRole")
    statement["Condition"] = {"StringEqualsIfExists": statement["Condition"]["StringEquals"]}


@destructive(
    "another account takes the role of kubectl",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ClusterKubectlRole", Effect.IN_PLACE, dangers=WIDER, words=("999999999999",)),
)
def _(edit: Edit) -> None:
    document = edit.properties("eks", ROLE, "ClusterKubectlRole")["AssumeRolePolicyDocument"]
    document["Statement"][0]["Principal"]["AWS"] = "arn:aws:iam::999999999999:root"


@destructive(
    "the system's nodes get a managed policy for secrets",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role SystemNodesRole", Effect.IN_PLACE, dangers=WIDER, words=("SecretsManagerReadWrite",)),
)
def _(edit: Edit) -> None:
    policies = edit.properties("eks", ROLE, "SystemNodesRole")["ManagedPolicyArns"]
    policies.append("arn:aws:iam::aws:policy/SecretsManagerReadWrite")


@destructive(
    "the role of Grafana loses its boundary",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role GrafanaRole", Effect.IN_PLACE, dangers=WIDER, words=("boundary",)),
    environment=OBSERVED,
    prepare=lambda edit: _bounded(edit, "GrafanaRole"),
)
def _(edit: Edit) -> None:
    del edit.properties("ray", ROLE, "GrafanaRole")["PermissionsBoundary"]


@destructive(
    "one letter more lets Ray do all with objects",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=WIDER, words=("s3:*Object",)),
)
def _(edit: Edit) -> None:
    that_allows(edit, "ray", "RayRole", "s3:GetObject")["Action"] = ["s3:*Object", "s3:AbortMultipartUpload"]


@harmless("the role of the flow logs gets a tag", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("network", ROLE, "FlowLogsIAMRole")["Tags"].append({"Key": "team", "Value": "ml"})


@harmless("a statement of the image build gets a name", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statements(edit, "ray", "ImageBuilderRole")[0]["Sid"] = "Context"


@harmless(
    "the managed policies of the system's nodes are in another order", Category.PERMISSIONS, worst=Effect.IN_PLACE
)
def _(edit: Edit) -> None:
    edit.properties("eks", ROLE, "SystemNodesRole")["ManagedPolicyArns"].reverse()


@harmless("the role of the image build gets a boundary", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _bounded(edit, "ImageBuilderRole")


@harmless(
    "a new role writes to its own log",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Nightly", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    log = "arn:aws:logs:us-west-2:111122223333:log-group:/aws/lambda/nightly:*"
    add_role(edit, "ray", "Nightly", allow(["logs:CreateLogStream", "logs:PutLogEvents"], log))


@harmless("the data's prefix of Ray is denied to it over old TLS", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    old = {"NumericLessThan": {"s3:TlsVersion": "1.2"}}
    statements(edit, "ray", "RayRole").append({"Effect": "Deny", "Action": "s3:*", "Resource": "*", "Condition": old})


@harmless("a single resource is written as a list", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statement = that_allows(edit, "hyperpod", "ExecutionRoleDefaultPolicy", "ec2:CreateTags")
    statement["Resource"] = [statement["Resource"]]


@harmless("the cluster's function may no longer delete tags", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", POLICY, ON_EVENT)
    that_allows(edit, "hyperpod", ON_EVENT, "sagemaker:DeleteTags")["Action"].remove("sagemaker:DeleteTags")
