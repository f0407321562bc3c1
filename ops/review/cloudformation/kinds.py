"""What each resource type holds, in one table: it decides what a deletion or replacement loses."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Holds(Enum):
    """What is lost with a resource."""

    DATA = auto()
    CLUSTER = auto()
    """Everything that runs in it, or depends on it."""
    NODES = auto()
    GUARD = auto()
    """A protection, such as logs and backups, which a new resource of the type takes over."""
    CALL = auto()
    """What calls somebody: a new resource of the type calls about something else, or somebody else."""
    NOTHING = auto()


@dataclass(frozen=True)
class ResourceKind:
    """A resource type in a reader's words."""

    title: str
    holds: Holds = Holds.NOTHING
    lost: str = ""
    """What a deletion loses, in a sentence."""


KINDS: Final = {
    "AWS::FSx::FileSystem": ResourceKind("file system", Holds.DATA),
    "AWS::S3::Bucket": ResourceKind("bucket", Holds.DATA, "Its objects are lost."),
    "AWS::KMS::Key": ResourceKind("encryption key", Holds.DATA, "Everything that it encrypted becomes unreadable."),
    "AWS::ECR::Repository": ResourceKind("image repository", Holds.DATA, "Its images are lost; pods cannot pull them."),
    "AWS::Backup::BackupVault": ResourceKind("backup vault", Holds.DATA, "Its backups are lost."),
    "AWS::EFS::FileSystem": ResourceKind("file system", Holds.DATA, "Its files are lost."),
    "AWS::EC2::Volume": ResourceKind("volume", Holds.DATA, "Its blocks are lost."),
    "AWS::DynamoDB::Table": ResourceKind("table", Holds.DATA, "Its items are lost."),
    "AWS::SecretsManager::Secret": ResourceKind("secret", Holds.DATA, "Its value is lost."),
    "AWS::SageMaker::MlflowTrackingServer": ResourceKind(
        "MLflow tracking server",
        Holds.DATA,
        "Its experiments, runs and metrics are lost; artifacts stay in the bucket.",
    ),
    "AWS::APS::Workspace": ResourceKind("Prometheus workspace", Holds.DATA, "Its metrics are lost."),
    "AWS::Grafana::Workspace": ResourceKind(
        "Grafana workspace", Holds.DATA, "Its dashboards, and who may sign in, are lost."
    ),
    "AWS::EKS::Cluster": ResourceKind("EKS cluster", Holds.CLUSTER, "Everything that runs in it is lost."),
    "AWS::SageMaker::Cluster": ResourceKind("HyperPod cluster", Holds.CLUSTER, "All nodes are deleted."),
    "AWS::EC2::VPC": ResourceKind("VPC", Holds.CLUSTER, "Clusters and file system depend on it."),
    "AWS::EC2::VPCCidrBlock": ResourceKind("VPC address range", Holds.CLUSTER, "Subnets depend on it."),
    "AWS::EC2::Subnet": ResourceKind("subnet", Holds.CLUSTER, "Nodes and the file system are in it."),
    "AWS::EKS::Nodegroup": ResourceKind("node group", Holds.NODES, "The system pods on its nodes are evicted."),
    "AWS::FSx::DataRepositoryAssociation": ResourceKind(
        "data repository association", Holds.GUARD, "New files are no longer mirrored to the bucket."
    ),
    "AWS::EC2::FlowLog": ResourceKind("flow log", Holds.GUARD, "Connections are no longer logged."),
    "AWS::Logs::LogGroup": ResourceKind("log group", Holds.GUARD, "Its log events are lost."),
    "AWS::Backup::BackupPlan": ResourceKind("backup plan", Holds.GUARD, "No more backups are made."),
    "AWS::Backup::BackupSelection": ResourceKind("backup selection", Holds.GUARD, "No more backups are made."),
    "AWS::CloudTrail::Trail": ResourceKind("trail", Holds.GUARD, "API calls are no longer logged."),
    "AWS::GuardDuty::Detector": ResourceKind("GuardDuty detector", Holds.GUARD, "Threats are no longer detected."),
    "AWS::Budgets::Budget": ResourceKind("budget", Holds.CALL, "Nobody is called when the month's costs exceed it."),
    "AWS::CloudWatch::Alarm": ResourceKind("alarm", Holds.CALL, "Nobody is called when its limit is broken."),
    "AWS::Events::Rule": ResourceKind("event rule", Holds.CALL, "Its notifications end."),
    "AWS::SNS::Subscription": ResourceKind("subscription", Holds.CALL, "Its notifications end."),
    "AWS::SNS::Topic": ResourceKind("topic", Holds.CALL, "Its notifications end."),
    "AWS::EC2::EIP": ResourceKind("public address", lost="Firewalls that name the address no longer match."),
    "AWS::EC2::InternetGateway": ResourceKind("internet gateway"),
    "AWS::EC2::LaunchTemplate": ResourceKind("launch template"),
    "AWS::EC2::NatGateway": ResourceKind("NAT gateway", lost="Open connections to the Internet end."),
    "AWS::EC2::NetworkAcl": ResourceKind("network ACL"),
    "AWS::EC2::NetworkAclEntry": ResourceKind("network ACL rule"),
    "AWS::EC2::PrefixList": ResourceKind("list of networks", lost="What names the list no longer admits its networks."),
    "AWS::EC2::Route": ResourceKind("route", lost="What used the route is unreachable."),
    "AWS::EC2::RouteTable": ResourceKind("route table"),
    "AWS::EC2::SecurityGroup": ResourceKind("security group"),
    "AWS::EC2::SecurityGroupEgress": ResourceKind("rule for outgoing traffic"),
    "AWS::EC2::SecurityGroupIngress": ResourceKind("rule for incoming traffic"),
    "AWS::EC2::SubnetNetworkAclAssociation": ResourceKind("network ACL of a subnet"),
    "AWS::EC2::SubnetRouteTableAssociation": ResourceKind("route table of a subnet"),
    "AWS::EC2::VPCEndpoint": ResourceKind("VPC endpoint", lost="Its service is reached by another way, or not at all."),
    "AWS::EC2::VPCGatewayAttachment": ResourceKind("attachment of a gateway"),
    "AWS::EKS::AccessEntry": ResourceKind("access to the Kubernetes API"),
    "AWS::EKS::Addon": ResourceKind("EKS add-on"),
    "AWS::EKS::PodIdentityAssociation": ResourceKind("pod identity"),
    "AWS::IAM::InstanceProfile": ResourceKind("instance profile"),
    "AWS::IAM::ManagedPolicy": ResourceKind("policy"),
    "AWS::IAM::OIDCProvider": ResourceKind(
        "identity provider of the cluster", lost="Pods can no longer assume their roles."
    ),
    "AWS::IAM::Policy": ResourceKind("policy"),
    "AWS::IAM::Role": ResourceKind("role"),
    "AWS::IAM::RolePolicy": ResourceKind("policy"),
    "AWS::IAM::User": ResourceKind("user"),
    "AWS::KMS::Alias": ResourceKind("alias of a key"),
    "AWS::CloudWatch::Dashboard": ResourceKind("dashboard"),
    "AWS::Lambda::Function": ResourceKind("function"),
    "AWS::Lambda::LayerVersion": ResourceKind("layer of functions"),
    "AWS::Lambda::Permission": ResourceKind("right to call a function"),
    "AWS::S3::BucketPolicy": ResourceKind("bucket policy"),
    "AWS::SNS::TopicPolicy": ResourceKind("topic policy"),
    "AWS::SSM::Parameter": ResourceKind("parameter"),
    "AWS::StepFunctions::StateMachine": ResourceKind("state machine"),
    "Custom::S3AutoDeleteObjects": ResourceKind("deleter of the objects of a bucket"),
}
"""Types that are not listed here hold an unknown thing: to delete or replace them is dangerous."""


def title(type_name: str, name: str) -> str:
    """Return a resource in a reader's words."""
    kind = KINDS.get(type_name)
    return f"{kind.title} {name}" if kind else f"{type_name} {name}"
