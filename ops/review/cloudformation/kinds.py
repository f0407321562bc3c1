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
    """A protection: logs, backups, a policy that denies."""
    NOTHING = auto()


@dataclass(frozen=True)
class Kind:
    """A resource type in a reader's words."""

    title: str
    holds: Holds = Holds.NOTHING
    lost: str = ""
    """What a deletion loses, in a sentence."""


KINDS: Final = {
    "AWS::FSx::FileSystem": Kind("file system", Holds.DATA),
    "AWS::S3::Bucket": Kind("bucket", Holds.DATA, "Its objects are lost."),
    "AWS::KMS::Key": Kind("encryption key", Holds.DATA, "Everything that it encrypted becomes unreadable."),
    "AWS::ECR::Repository": Kind("image repository", Holds.DATA, "Its images are lost; pods cannot pull them."),
    "AWS::Backup::BackupVault": Kind("backup vault", Holds.DATA, "Its backups are lost."),
    "AWS::EFS::FileSystem": Kind("file system", Holds.DATA, "Its files are lost."),
    "AWS::EC2::Volume": Kind("volume", Holds.DATA, "Its blocks are lost."),
    "AWS::DynamoDB::Table": Kind("table", Holds.DATA, "Its items are lost."),
    "AWS::SecretsManager::Secret": Kind("secret", Holds.DATA, "Its value is lost."),
    "AWS::SageMaker::MlflowTrackingServer": Kind(
        "MLflow tracking server",
        Holds.DATA,
        "Its experiments, runs and metrics are lost; artifacts stay in the bucket.",
    ),
    "AWS::APS::Workspace": Kind("Prometheus workspace", Holds.DATA, "Its metrics are lost."),
    "AWS::Grafana::Workspace": Kind("Grafana workspace", Holds.DATA, "Its dashboards, and who may sign in, are lost."),
    "AWS::EKS::Cluster": Kind("EKS cluster", Holds.CLUSTER, "Everything that runs in it is lost."),
    "AWS::SageMaker::Cluster": Kind("HyperPod cluster", Holds.CLUSTER, "All nodes are deleted."),
    "AWS::EC2::VPC": Kind("VPC", Holds.CLUSTER, "Clusters and file system depend on it."),
    "AWS::EC2::VPCCidrBlock": Kind("VPC address range", Holds.CLUSTER, "Subnets depend on it."),
    "AWS::EC2::Subnet": Kind("subnet", Holds.CLUSTER, "Nodes and the file system are in it."),
    "AWS::EKS::Nodegroup": Kind("node group", Holds.NODES, "The system pods on its nodes are evicted."),
    "AWS::FSx::DataRepositoryAssociation": Kind(
        "data repository association", Holds.GUARD, "New files are no longer mirrored to the bucket."
    ),
    "AWS::EC2::FlowLog": Kind("flow log", Holds.GUARD, "Connections are no longer logged."),
    "AWS::Logs::LogGroup": Kind("log group", Holds.GUARD, "Its log events are lost."),
    "AWS::Backup::BackupPlan": Kind("backup plan", Holds.GUARD, "No more backups are made."),
    "AWS::Backup::BackupSelection": Kind("backup selection", Holds.GUARD, "No more backups are made."),
    "AWS::CloudTrail::Trail": Kind("trail", Holds.GUARD, "API calls are no longer logged."),
    "AWS::GuardDuty::Detector": Kind("GuardDuty detector", Holds.GUARD, "Threats are no longer detected."),
    "AWS::Budgets::Budget": Kind("budget", lost="Nobody is called when the month's costs exceed it."),
    "AWS::EC2::EIP": Kind("public address", lost="Firewalls that name the address no longer match."),
    "AWS::EC2::InternetGateway": Kind("internet gateway"),
    "AWS::EC2::LaunchTemplate": Kind("launch template"),
    "AWS::EC2::NatGateway": Kind("NAT gateway", lost="Open connections to the Internet end."),
    "AWS::EC2::NetworkAcl": Kind("network ACL"),
    "AWS::EC2::NetworkAclEntry": Kind("network ACL rule"),
    "AWS::EC2::PrefixList": Kind("list of networks", lost="What names the list no longer admits its networks."),
    "AWS::EC2::Route": Kind("route", lost="What used the route is unreachable."),
    "AWS::EC2::RouteTable": Kind("route table"),
    "AWS::EC2::SecurityGroup": Kind("security group"),
    "AWS::EC2::SecurityGroupEgress": Kind("rule for outgoing traffic"),
    "AWS::EC2::SecurityGroupIngress": Kind("rule for incoming traffic"),
    "AWS::EC2::SubnetNetworkAclAssociation": Kind("network ACL of a subnet"),
    "AWS::EC2::SubnetRouteTableAssociation": Kind("route table of a subnet"),
    "AWS::EC2::VPCEndpoint": Kind("VPC endpoint", lost="Its service is reached by another way, or not at all."),
    "AWS::EC2::VPCGatewayAttachment": Kind("attachment of a gateway"),
    "AWS::EKS::AccessEntry": Kind("access to the Kubernetes API"),
    "AWS::EKS::Addon": Kind("EKS add-on"),
    "AWS::EKS::PodIdentityAssociation": Kind("pod identity"),
    "AWS::Events::Rule": Kind("event rule", lost="Its notifications end."),
    "AWS::IAM::InstanceProfile": Kind("instance profile"),
    "AWS::IAM::ManagedPolicy": Kind("policy"),
    "AWS::IAM::OIDCProvider": Kind("identity provider of the cluster", lost="Pods can no longer assume their roles."),
    "AWS::IAM::Policy": Kind("policy"),
    "AWS::IAM::Role": Kind("role"),
    "AWS::IAM::RolePolicy": Kind("policy"),
    "AWS::IAM::User": Kind("user"),
    "AWS::KMS::Alias": Kind("alias of a key"),
    "AWS::CloudWatch::Alarm": Kind("alarm", lost="Nobody is called when its limit is broken."),
    "AWS::CloudWatch::Dashboard": Kind("dashboard"),
    "AWS::Lambda::Function": Kind("function"),
    "AWS::Lambda::LayerVersion": Kind("layer of functions"),
    "AWS::Lambda::Permission": Kind("right to call a function"),
    "AWS::S3::BucketPolicy": Kind("bucket policy"),
    "AWS::SNS::Subscription": Kind("subscription", lost="Its notifications end."),
    "AWS::SNS::Topic": Kind("topic", lost="Its notifications end."),
    "AWS::SNS::TopicPolicy": Kind("topic policy"),
    "AWS::SSM::Parameter": Kind("parameter"),
    "AWS::StepFunctions::StateMachine": Kind("state machine"),
    "Custom::S3AutoDeleteObjects": Kind("emptier of a bucket"),
}
"""Types that are not listed here hold an unknown thing: to delete or replace them is dangerous."""


def title(type_name: str, name: str) -> str:
    """Return a resource in a reader's words."""
    kind = KINDS.get(type_name)
    return f"{kind.title} {name}" if kind else f"{type_name} {name}"
