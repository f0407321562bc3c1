"""Pairs that were kept aside until the judges were complete: storage, clusters, permissions, network, protection."""

import copy

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import CASES, Case, Category, Document, Expected, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

EKS = "AWS::EKS::Cluster"
HYPERPOD = "Custom::HyperPodCluster"
POLICY = "AWS::IAM::Policy"
WIDER = Danger.WIDER_PERMISSIONS
LOWER = Danger.LOWER_PROTECTION


# Data


def _throughput(document: Document) -> None:
    document["fsx"]["throughput_mbps_per_tib"] = 500


def _fewer_nodes(document: Document) -> None:
    document["hyperpod"]["instance_groups"][1]["count"] = 3
    document["ray"]["clusters"][0]["workers"][0]["replicas"] = 3


def _other_instances(document: Document) -> None:
    document["hyperpod"]["instance_groups"][0]["instance_type"] = "ml.m5.4xlarge"


CASES.extend(
    (
        Case(
            "the environment's file asks for another throughput of the file system",
            Category.DATA,
            True,
            # CloudFormation's reference: PerUnitStorageThroughput requires replacement; the new file system is empty.
            (
                Expected(
                    "AWS::FSx::FileSystem FileSystem",
                    frozenset({Effect.DATA_LOST}),
                    frozenset({Danger.DATA_LOSS}),
                    ("empty",),
                ),
            ),
            Effect.DATA_LOST,
            file=_throughput,
        ),
        Case(
            "the environment's file has one node less in a group",
            Category.GROUPS,
            False,
            (
                Expected(
                    "InstanceGroup worker-group-1",
                    frozenset({Effect.NODES_REMOVED}),
                    words=("4", "3", "ops scale worker-group-1"),
                ),
            ),
            # The workers of a RayCluster go down with the nodes.
            Effect.ENDS_JOBS,
            file=_fewer_nodes,
        ),
        Case(
            "the environment's file gives a group another instance type",
            Category.GROUPS,
            False,
            # The handler refuses it before it changes anything; no danger has it.
            (Expected("InstanceGroup head-group", frozenset({Effect.REFUSED}), words=("name",)),),
            Effect.REFUSED,
            file=_other_instances,
        ),
    )
)


@destructive(
    "the image repository takes its name from a parameter",
    Category.DATA,
    expect("AWS::ECR::Repository Image", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("repositor",)),
)
def _(edit: Edit) -> None:
    edit.templates["storage"]["Parameters"]["Name"] = {"Type": "String", "Default": "aws-ray-custom"}
    edit.properties("storage", "AWS::ECR::Repository")["RepositoryName"] = {"Ref": "Name"}


@destructive(
    "the key of the notifications is deleted, and the topic goes without encryption",
    Category.DATA,
    expect("AWS::KMS::Key NotificationsKey", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("key",)),
)
def _(edit: Edit) -> None:
    edit.delete("hyperpod", "AWS::KMS::Key", "NotificationsKey")
    del edit.properties("hyperpod", "AWS::SNS::Topic")["KmsMasterKeyId"]


@destructive(
    "the lifecycle bucket becomes a directory bucket under the same logical id",
    Category.DATA,
    # A changed type is a replacement.
    expect("AWS::S3", Effect.DATA_LOST, Effect.REPLACED, dangers=Danger.DATA_LOSS, words=("bucket",)),
)
def _(edit: Edit) -> None:
    _, bucket = edit.find("storage", "AWS::S3::Bucket", "Lifecycle")
    bucket["Type"] = "AWS::S3Express::DirectoryBucket"
    bucket["Properties"] = {"DataRedundancy": "SingleAvailabilityZone", "LocationName": "usw2-az1"}


@harmless(
    "the capacity of the file system is raised",
    Category.DATA,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE, words=("1200", "2400")),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    assert edit.properties("storage", "AWS::FSx::FileSystem")["StorageCapacity"] == 1200
    edit.properties("storage", "AWS::FSx::FileSystem")["StorageCapacity"] = 2400


@harmless(
    "the tags of a bucket are written in another order",
    Category.DATA,
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    bucket = edit.properties("storage", "AWS::S3::Bucket", "Lifecycle")
    assert len(bucket["Tags"]) > 1
    bucket["Tags"].reverse()


# Clusters


@destructive(
    "Kubernetes goes down, by one minor version",
    Category.CLUSTERS,
    expect(
        "AWS::EKS::Cluster Cluster",
        Effect.IN_PLACE,
        Effect.REFUSED,
        Effect.REPLACED,
        Effect.DATA_LOST,
        dangers=Danger.VERSION_SKIP,
        words=("1.34",),
    ),
)
def _(edit: Edit) -> None:
    edit.properties("eks", EKS)["Version"] = "1.34"


@destructive(
    "the stack of the HyperPod cluster is gone",
    Category.CLUSTERS,
    expect("", Effect.KEPT, Effect.DELETED, Effect.DATA_LOST, dangers=Danger.CLUSTER_LOSS, words=("stack",)),
)
def _(edit: Edit) -> None:
    edit.remove_stack("hyperpod")


@destructive(
    "the VPC has another range",
    Category.CLUSTERS,
    expect("AWS::EC2::VPC Vpc", Effect.REPLACED, Effect.DATA_LOST, dangers=Danger.CLUSTER_LOSS),
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::VPC")["CidrBlock"] = "10.200.0.0/16"


@harmless("the VPC and its subnets have other tags", Category.CLUSTERS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    for kind, construct in (("AWS::EC2::VPC", ""), ("AWS::EC2::Subnet", "VpcNodes0")):
        edit.properties("network", kind, construct)["Tags"].append({"Key": "owner", "Value": "platform"})


@harmless("a stack has another description", Category.CLUSTERS, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    edit.templates["eks"]["Description"] = "The control plane"


# Groups


@destructive(
    "an instance group is removed, and its name is that of a tag now",
    Category.GROUPS,
    expect(
        "InstanceGroup worker-group-1",
        Effect.NODES_REMOVED,
        Effect.REFUSED,
        dangers=Danger.GROUP_REMOVED,
        words=("confirm_group_removal",),
    ),
)
def _(edit: Edit) -> None:
    cluster = edit.properties("hyperpod", HYPERPOD)
    groups = cluster["InstanceGroups"]
    cluster["InstanceGroups"] = [each for each in groups if each["InstanceGroupName"] != "worker-group-1"]
    assert len(cluster["InstanceGroups"]) == len(groups) - 1
    cluster["Tags"].append({"Key": "InstanceGroupName", "Value": "worker-group-1"})


@destructive(
    "a group is renamed and the confirmation names another",
    Category.GROUPS,
    expect(
        "InstanceGroup head-group",
        Effect.NODES_REPLACED,
        Effect.NODES_REMOVED,
        Effect.REFUSED,
        dangers=Danger.GROUP_REMOVED,
    ),
)
def _(edit: Edit) -> None:
    cluster = edit.properties("hyperpod", HYPERPOD)
    [group] = [each for each in cluster["InstanceGroups"] if each["InstanceGroupName"] == "head-group"]
    group["InstanceGroupName"] = "Head-group"
    cluster["ConfirmGroupRemoval"] = ["worker-group-1"]


@harmless("the instance groups are in another order", Category.GROUPS, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", HYPERPOD)["InstanceGroups"].reverse()


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
