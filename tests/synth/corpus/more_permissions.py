"""Pairs that were kept aside until the rules were complete: permissions, network, protection."""

import copy

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

EKS = "AWS::EKS::Cluster"
HYPERPOD = "Custom::HyperPodCluster"
POLICY = "AWS::IAM::Policy"
WIDER = Danger.WIDER_PERMISSIONS
LOWER = Danger.LOWER_PROTECTION


# Permissions


@destructive(
    "a policy allows all but a few actions",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy ExecutionRole", Effect.IN_PLACE, dangers=WIDER, words=("NotAction",)),
)
def _(edit: Edit) -> None:
    document = edit.properties("hyperpod", POLICY, "ExecutionRoleDefaultPolicy")["PolicyDocument"]
    document["Statement"][1]["NotAction"] = document["Statement"][1].pop("Action")


@destructive(
    "a statement loses its condition, and gains one that says nothing",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy ProviderOnEvent", Effect.IN_PLACE, dangers=WIDER, words=("PassRole",)),
)
def _(edit: Edit) -> None:
    document = edit.properties("hyperpod", POLICY, "ProviderOnEventServiceRoleDefaultPolicy")["PolicyDocument"]
    [statement] = [each for each in document["Statement"] if each["Action"] == "iam:PassRole"]
    statement["Condition"] = {"StringLike": {"iam:PassedToService": "*"}}


@destructive(
    "any service account of the cluster may take Ray's role",
    Category.PERMISSIONS,
    # The trust policy is a JSON text within Fn::Sub.
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    sub = edit.properties("ray", "AWS::IAM::Role", "RayRole")["AssumeRolePolicyDocument"]["Fn::Sub"]
    changed = sub[0].replace("StringEquals", "StringLike").replace("${Namespace}:${ServiceAccount}", "*")
    assert changed != sub[0]
    sub[0] = changed


@destructive(
    "the access entry of the submitters covers the whole cluster",
    Category.PERMISSIONS,
    expect("AWS::EKS::AccessEntry ", Effect.IN_PLACE, dangers=WIDER, words=("cluster",)),
)
def _(edit: Edit) -> None:
    entry = edit.properties("eks", "AWS::EKS::AccessEntry", "AccessSubmitterRaySubmitter")
    entry["AccessPolicies"][0]["AccessScope"] = {"Type": "cluster"}


@harmless("a policy allows fewer resources", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statement = edit.properties("hyperpod", POLICY, "ExecutionRoleDefaultPolicy")["PolicyDocument"]["Statement"][0]
    statement["Resource"] = statement["Resource"][1:]


@harmless(
    "a bucket policy denies one more thing",
    Category.PERMISSIONS,
    expect("AWS::S3::BucketPolicy Data", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    statements = edit.properties("storage", "AWS::S3::BucketPolicy", "DataPolicy")["PolicyDocument"]["Statement"]
    [denied] = [each for each in statements if each["Effect"] == "Deny"]
    statements.append(denied | {"Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}})


@destructive(
    "another role may view the environment",
    Category.PERMISSIONS,
    expect("AWS::EKS::AccessEntry AccessViewerOther", Effect.CREATED, dangers=WIDER, words=("role/Other",)),
)
def _(edit: Edit) -> None:
    entry = edit.properties("eks", "AWS::EKS::AccessEntry", "AccessViewerRayViewer")
    role = "arn:aws:iam::111122223333:role/Other"
    edit.add("eks", "AccessViewerOther", "AWS::EKS::AccessEntry", **entry | {"PrincipalArn": role})


@destructive(
    "the viewers become submitters",
    Category.PERMISSIONS,
    expect("AWS::EKS::AccessEntry AccessViewer", Effect.IN_PLACE, dangers=WIDER, words=("ray-submitters",)),
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::AccessEntry", "AccessViewerRayViewer")["KubernetesGroups"] = ["ray-submitters"]


@harmless("the access of the viewers is removed", Category.PERMISSIONS, worst=Effect.DELETED)
def _(edit: Edit) -> None:
    edit.delete("eks", "AWS::EKS::AccessEntry", "AccessViewerRayViewer")


@harmless("the access of the submitters is removed", Category.PERMISSIONS, worst=Effect.DELETED)
def _(edit: Edit) -> None:
    edit.delete("eks", "AWS::EKS::AccessEntry", "AccessSubmitterRaySubmitter")


# Network


@destructive(
    "the security group of the nodes takes a range from a condition",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroup SharedSecurityGroup", Effect.IN_PLACE, dangers=Danger.OPENED_PORT),
)
def _(edit: Edit) -> None:
    edit.templates["network"]["Conditions"] = {"Open": {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-west-2"]}}
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
    rule_range = {"Fn::If": ["Open", "0.0.0.0/0", "10.192.0.0/16"]}
    edit.properties("network", "AWS::EC2::SecurityGroup")["SecurityGroupIngress"] = [rule | {"CidrIp": rule_range}]


@destructive(
    "the data bucket accepts public policies",
    Category.NETWORK,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, dangers=(Danger.PUBLIC_ENDPOINT, LOWER), words=("public",)),
)
def _(edit: Edit) -> None:
    block = edit.properties("storage", "AWS::S3::Bucket", "Data")["PublicAccessBlockConfiguration"]
    block |= {"BlockPublicPolicy": False, "RestrictPublicBuckets": False}


@destructive(
    "instances of the nodes' subnet get public addresses",
    Category.NETWORK,
    expect("AWS::EC2::Subnet VpcNodes0", Effect.IN_PLACE, dangers=Danger.PUBLIC_ENDPOINT),
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::Subnet", "VpcNodes0")["MapPublicIpOnLaunch"] = True


@harmless(
    "the EKS endpoint is private only",
    Category.NETWORK,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("eks", EKS)["ResourcesVpcConfig"]["EndpointPublicAccess"] = False


# Protection


@destructive(
    "the EKS cluster no longer logs its audit",
    Category.PROTECTION,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, dangers=LOWER, words=("audit",)),
)
def _(edit: Edit) -> None:
    logging = edit.properties("eks", EKS)["Logging"]["ClusterLogging"]
    logging["EnabledTypes"] = [each for each in logging["EnabledTypes"] if each["Type"] != "audit"]


@destructive(
    "the flow log of the VPC is removed",
    Category.PROTECTION,
    expect("AWS::EC2::FlowLog ", Effect.DELETED, dangers=LOWER),
)
def _(edit: Edit) -> None:
    edit.delete("network", "AWS::EC2::FlowLog")


@destructive(
    "the image repository is emptied when it is deleted",
    Category.PROTECTION,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, Effect.NOTHING, dangers=LOWER, words=("EmptyOnDelete",)),
    environment="prod",
)
def _(edit: Edit) -> None:
    assert edit.properties("storage", "AWS::ECR::Repository")["EmptyOnDelete"] is False
    edit.properties("storage", "AWS::ECR::Repository")["EmptyOnDelete"] = True


@destructive(
    "the log group of the EKS cluster keeps its records for a week",
    Category.PROTECTION,
    expect("AWS::Logs::LogGroup ClusterLog", Effect.IN_PLACE, dangers=LOWER, words=("30", "7")),
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::Logs::LogGroup", "ClusterLog")["RetentionInDays"] = 7


@harmless("the image repository is no longer emptied when it is deleted", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::ECR::Repository")["EmptyOnDelete"] = False


@harmless("a key waits for longer before it is deleted", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    assert edit.properties("eks", "AWS::KMS::Key")["PendingWindowInDays"] == 7
    edit.properties("eks", "AWS::KMS::Key")["PendingWindowInDays"] = 30


@harmless(
    "a bucket of logs is new",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Logs", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    data = copy.deepcopy(edit.properties("storage", "AWS::S3::Bucket", "Data"))
    edit.add("storage", "Logs", "AWS::S3::Bucket", **data | {"BucketName": "rayhp-dev-logs-111122223333"})


@harmless(
    "replaced versions are kept for longer",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", "AWS::S3::Bucket", "Data")["LifecycleConfiguration"]["Rules"]
    assert rules[0]["NoncurrentVersionExpiration"]["NoncurrentDays"] == 30
    rules[0]["NoncurrentVersionExpiration"]["NoncurrentDays"] = 90


@harmless(
    "the file system no longer compresses",
    Category.DATA,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["DataCompressionType"] = "NONE"


@harmless(
    "the nodes of a group get larger volumes",
    Category.GROUPS,
    # It takes effect for nodes that are created afterwards.
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    [group] = [
        each
        for each in edit.properties("hyperpod", HYPERPOD)["InstanceGroups"]
        if each["InstanceGroupName"] == "worker-group-1"
    ]
    group["InstanceStorageConfigs"] = [{"EbsVolumeConfig": {"VolumeSizeInGB": 1000}}]
