"""Pairs by an author who had not seen the judges, the held-out half: changes in place, ways between networks."""

import json

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import OBSERVED
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOWER, LOOSER = Danger.WIDER_PERMISSIONS, Danger.LOWER_PROTECTION, Danger.LOOSER_ISOLATION
OPENED, PUBLIC, RUNS = Danger.OPENED_PORT, Danger.PUBLIC_ENDPOINT, Danger.RUNS_CODE
BUCKET = "AWS::S3::Bucket"
FUNCTION = "AWS::Lambda::Function"
ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"


@destructive(
    "results on the file system are no longer written to the bucket",
    Category.PROTECTION,
    expect(
        "AWS::FSx::DataRepositoryAssociation FileSystemDataRepositoryresults",
        Effect.IN_PLACE,
        dangers=(LOWER, Danger.DATA_LOSS),
        words=("AutoExportPolicy",),
    ),
    environment="prod",
)
def _(edit: Edit) -> None:
    del edit.properties("storage", ASSOCIATION, "FileSystemDataRepositoryresults")["S3"]["AutoExportPolicy"]


@destructive(
    "the file system becomes one without copies",
    Category.DATA,
    expect("AWS::FSx::FileSystem FileSystem", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("SCRATCH_2",)),
)
def _(edit: Edit) -> None:
    lustre = edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]
    lustre["DeploymentType"] = "SCRATCH_2"
    del lustre["PerUnitStorageThroughput"]


@destructive(
    "the cluster's function talks to somebody instead of AWS",
    Category.SCRIPTS,
    expect("AWS::Lambda::Function ProviderOnEvent", Effect.IN_PLACE, dangers=(RUNS, LOOSER), words=("example.net",)),
)
def _(edit: Edit) -> None:
    variables = {"AWS_ENDPOINT_URL": "https://aws.example.net"}
    edit.properties("hyperpod", FUNCTION, "ProviderOnEvent")["Environment"] = {"Variables": variables}


@destructive(
    "a wrapper starts before the cluster's function",
    Category.SCRIPTS,
    expect(
        "AWS::Lambda::Function ProviderIsComplete", Effect.IN_PLACE, dangers=RUNS, words=("AWS_LAMBDA_EXEC_WRAPPER",)
    ),
)
def _(edit: Edit) -> None:
    variables = {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/wrapper"}
    edit.properties("hyperpod", FUNCTION, "ProviderIsComplete")["Environment"] = {"Variables": variables}


@destructive(
    "the key of the notifications decrypts for another account",
    Category.PERMISSIONS,
    expect("AWS::KMS::Key NotificationsKey", Effect.IN_PLACE, dangers=WIDER, words=("999999999999", "kms:Decrypt")),
)
def _(edit: Edit) -> None:
    statements = edit.properties("hyperpod", "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    principal = {"AWS": "arn:aws:iam::999999999999:root"}
    statements.append({"Effect": "Allow", "Action": "kms:Decrypt", "Principal": principal, "Resource": "*"})


@destructive(
    "another account pushes images",
    Category.PERMISSIONS,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, dangers=WIDER, words=("ecr:PutImage", "999999999999")),
)
def _(edit: Edit) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::999999999999:root"},
        "Action": ["ecr:PutImage", "ecr:UploadLayerPart"],
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    edit.properties("storage", "AWS::ECR::Repository")["RepositoryPolicyText"] = policy


@destructive(
    "images with tags expire after a day",
    Category.DATA,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(Danger.DATA_LOSS, LOWER)),
)
def _(edit: Edit) -> None:
    selection = {"tagStatus": "any", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": 1}
    rule = {"rulePriority": 1, "selection": selection, "action": {"type": "expire"}}
    edit.properties("storage", "AWS::ECR::Repository")["LifecyclePolicy"] = {
        "LifecyclePolicyText": json.dumps({"rules": [rule]})
    }


@destructive(
    "everybody reads the data bucket",
    Category.NETWORK,
    expect("AWS::S3::BucketPolicy Data", Effect.IN_PLACE, dangers=(WIDER, PUBLIC), words=("s3:GetObject",)),
)
def _(edit: Edit) -> None:
    statements = edit.properties("storage", "AWS::S3::BucketPolicy", "DataPolicy")["PolicyDocument"]["Statement"]
    like = {"StringLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/*"}}
    statements.append(
        {"Effect": "Allow", "Action": "s3:GetObject", "Principal": "*", "Resource": "*", "Condition": like}
    )


@destructive(
    "the network joins a transit gateway of the company, and routes lead there",
    Category.NETWORK,
    expect("AWS::EC2::Route TransitRoute", Effect.CREATED, dangers=(OPENED, LOOSER, PUBLIC), words=("10.0.0.0/8",)),
)
def _(edit: Edit) -> None:
    table = {"Ref": edit.find("network", "AWS::EC2::RouteTable", "VpcPrivateRoutes0")[0]}
    way = {"DestinationCidrBlock": "10.0.0.0/8", "TransitGatewayId": "tgw-0123456789abcdef0"}
    edit.add("network", "TransitRoute", "AWS::EC2::Route", RouteTableId=table, **way)


@destructive(
    "the key of the secrets is no longer renewed",
    Category.PROTECTION,
    expect("AWS::KMS::Key ClusterSecretsKey", Effect.IN_PLACE, dangers=LOWER, words=("rotation",)),
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::KMS::Key")["EnableKeyRotation"] = False


@destructive(
    "somebody's endpoint policy lets the closed network write to each bucket",
    Category.PERMISSIONS,
    expect("AWS::EC2::VPCEndpoint VpcEndpoints3", Effect.IN_PLACE, dangers=(WIDER, LOOSER), words=("s3:PutObject",)),
    environment=OBSERVED,
    prepare=lambda edit: _reading(edit, "s3:GetObject"),
)
def _(edit: Edit) -> None:
    _reading(edit, "s3:GetObject", "s3:PutObject")


def _reading(edit: Edit, *actions: str) -> None:
    statement = {"Effect": "Allow", "Principal": "*", "Action": list(actions), "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    edit.properties("network", "AWS::EC2::VPCEndpoint", "VpcEndpoints3")["PolicyDocument"] = document


@harmless(
    "the endpoint of the closed network reads one bucket only",
    Category.PERMISSIONS,
    worst=Effect.IN_PLACE,
    environment=OBSERVED,
    prepare=lambda edit: _reading(edit, "s3:GetObject"),
)
def _(edit: Edit) -> None:
    endpoint = edit.properties("network", "AWS::EC2::VPCEndpoint", "VpcEndpoints3")
    endpoint["PolicyDocument"]["Statement"][0]["Resource"] = "arn:aws:s3:::rayhp-dev-data/*"


@harmless(
    "changes of the bucket are read in another order of events",
    Category.DATA,
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    association = edit.properties("storage", ASSOCIATION, "FileSystemDataRepositorydatasets")
    association["S3"]["AutoImportPolicy"]["Events"].reverse()


@harmless("the file system is kept on Tuesdays", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    lustre = edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]
    lustre["WeeklyMaintenanceStartTime"] = "2:03:00"


@harmless("the cluster's function has more memory and a tag", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    function = edit.properties("hyperpod", FUNCTION, "ProviderIsComplete")
    function |= {"MemorySize": 512, "Tags": [{"Key": "team", "Value": "ml"}]}


@harmless(
    "the key of the notifications serves events of this account only", Category.PERMISSIONS, worst=Effect.IN_PLACE
)
def _(edit: Edit) -> None:
    [_, statement] = edit.properties("hyperpod", "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    statement["Condition"] = {"StringEquals": {"aws:SourceAccount": "111122223333"}}


@harmless("the image repository gets a tag", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::ECR::Repository")["Tags"] = [{"Key": "team", "Value": "ml"}]


@harmless("the data bucket announces its objects to EventBridge and has a tag", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    bucket = edit.properties("storage", BUCKET, "Data")
    bucket["NotificationConfiguration"] = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    bucket["Tags"].append({"Key": "team", "Value": "ml"})


@harmless("the state machine waits for longer in all", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    definition = edit.properties("hyperpod", "AWS::StepFunctions::StateMachine")["DefinitionString"]
    pieces = definition["Fn::Join"][1]
    pieces[0] = pieces[0].replace('"MaxAttempts":240', '"MaxAttempts":300')


@harmless("a private route table gets a name", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::RouteTable", "VpcPrivateRoutes0")["Tags"][0]["Value"] = "private"


@harmless("the key of the secrets is described", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::KMS::Key")["Description"] = "Envelope of Kubernetes' secrets"


@harmless(
    "the link between file system and bucket gets a tag", Category.DATA, worst=Effect.IN_PLACE, environment="prod"
)
def _(edit: Edit) -> None:
    association = edit.properties("storage", ASSOCIATION, "FileSystemDataRepositoryresults")
    association["Tags"] = [{"Key": "team", "Value": "ml"}]
