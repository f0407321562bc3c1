"""The IAM role of HyperPod's nodes."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.shared.company_key import may_use
from stacks.shared.nag_suppressions import acknowledge, imported, wildcard
from stacks.shared.nag_suppressions import managed_policy as managed

LOGS_AND_METRICS: Final = "/aws/sagemaker/Clusters"
INTERFACE_ACTIONS: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DetachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
)
DESCRIBE_ACTIONS: Final = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcs",
)
# AWS docs: sagemaker-hyperpod-prerequisites-iam; the Slurm guide's policy for a cluster in a VPC.
INTERFACE_ACTIONS_WITHOUT_PODS: Final = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DetachNetworkInterface",
)
DESCRIBE_ACTIONS_WITHOUT_PODS: Final = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
PULL_ACTIONS: Final = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
MANAGED_POLICY: Final = "AmazonSageMakerClusterInstanceRolePolicy"
SESSION_ACTIONS: Final = (
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
)


class ExecutionRole(Construct):
    """A least-privilege role instead of AmazonSageMakerClusterInstanceRolePolicy and its companion policies.

    The role's rights and their purpose (AWS docs: sagemaker-hyperpod-prerequisites-iam):

    | actions | on | for |
    | --- | --- | --- |
    | network interfaces | the nodes' subnets and group, interfaces, instances | VPC CNI, HyperPod's own interfaces |
    | `sagemaker:AttachClusterNodeNetworkInterface` | the account's clusters | VPC CNI after 1.23.1 (its #3874) |
    | `ec2:Describe*` (eight) | everything: EC2 supports no narrower resource | VPC CNI |
    | `ec2:CreateTags` | network interfaces | VPC CNI |
    | ECR pulls | repositories of any account | EKS's and HyperPod's images are in AWS's accounts |
    | logs | log groups of this cluster | lifecycle scripts, health agent, deep checks |
    | `cloudwatch:PutMetricData` | HyperPod's namespace | health agent |
    | `ssmmessages` (four) | everything: SSM supports no narrower resource | `aws ssm start-session` to a node |
    | S3 read | the lifecycle bucket | lifecycle scripts |
    | `eks-auth:AssumeRoleForPodIdentity` | the EKS cluster | pods with a Pod Identity association |
    | S3 read | the data bucket, for Slurm | Mountpoint for Amazon S3 on the nodes |
    | `kms:CreateGrant`, `kms:DescribeKey` | the company's key, through SageMaker | volumes (smcluster-cmk) |
    | `kms:Decrypt` | the company's key, through S3 | lifecycle scripts, data bucket |

    The rows cover all that version 1 of AmazonSageMakerClusterInstanceRolePolicy allows (zoph-io/MAMIP).

    With `managed_policy`, AWS's policy replaces the rows of logs, metrics, sessions and the lifecycle bucket; it covers
    buckets that begin with `sagemaker-`, so the data bucket keeps its row.

    Nodes of Slurm (without `eks_cluster`) have no pods: they get no rights for images, Pod Identity and the VPC CNI,
    and read the `data_bucket`.
    """

    role: iam.Role

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        subnets: Sequence[ec2.ISubnet],
        subnets_owner: str,
        security_group: ec2.ISecurityGroup,
        eks_cluster: eks.ICluster | None,
        lifecycle_bucket: s3.IBucket,
        data_bucket: s3.IBucket | None = None,
        key: kms.IKey | None = None,
        managed_policy: bool = False,
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Resource",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description=f"Nodes of HyperPod cluster {cluster_name}",
        )
        for_pods = eks_cluster is not None
        of = f"arn:aws:ec2:{Stack.of(self).region}:{subnets_owner}:subnet"
        self._allow_network([f"{of}/{each.subnet_id}" for each in subnets], security_group, for_pods=for_pods)
        if for_pods:
            self._allow_images()
        if managed_policy:
            self.role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name(MANAGED_POLICY))
            reason = "The environment asks for AWS's policy instead of narrower statements (slurm.managed_policy)"
            acknowledge(self, reason, managed(MANAGED_POLICY))
        else:
            self._allow_sessions()
            self._allow_logs(cluster_name)
            self._allow_to_read(lifecycle_bucket, "The bucket holds lifecycle scripts and nothing else")
        if data_bucket:
            self._allow_to_read(data_bucket, "Jobs read all data of the environment, and nodes mount the whole bucket")
        if eks_cluster:
            self._allow(["eks-auth:AssumeRoleForPodIdentity"], eks_cluster.cluster_arn)
        if key:
            self.role.add_to_policy(may_use(key, "sagemaker", "kms:CreateGrant"))
            self.role.add_to_policy(may_use(key, "sagemaker", "kms:DescribeKey"))
            self.role.add_to_policy(may_use(key, "s3", "kms:Decrypt"))

    def _allow_network(self, subnets: Sequence[str], security_group: ec2.ISecurityGroup, *, for_pods: bool) -> None:
        stack = Stack.of(self)
        own = f"arn:aws:ec2:{stack.region}:{stack.account}"
        interfaces = f"{own}:network-interface/*"
        instances = f"arn:aws:ec2:{stack.region}:*:instance/*"
        self._allow(
            INTERFACE_ACTIONS if for_pods else INTERFACE_ACTIONS_WITHOUT_PODS,
            interfaces,
            instances,
            *subnets,
            f"{own}:security-group/{security_group.security_group_id}",
        )
        self._allow(["ec2:CreateTags"], interfaces)
        if for_pods:
            clusters = f"arn:aws:sagemaker:{stack.region}:{stack.account}:cluster/*"
            self._allow(["sagemaker:AttachClusterNodeNetworkInterface"], clusters)
            acknowledge(self, "SageMaker chooses the cluster's id only after the role exists", wildcard(clusters))
        self._allow(DESCRIBE_ACTIONS if for_pods else DESCRIBE_ACTIONS_WITHOUT_PODS, "*")
        acknowledge(self, "These actions have no resource type; PutMetricData has one namespace", wildcard("*"))
        acknowledge(
            self, "Pods create and delete interfaces; subnets and security group limit them", wildcard(interfaces)
        )
        acknowledge(self, "HyperPod's instances belong to an account of the service", wildcard(instances))

    def _allow_images(self) -> None:
        repositories = "arn:aws:ecr:*:*:repository/*"
        self._allow(["ecr:GetAuthorizationToken"], "*")
        self._allow(PULL_ACTIONS, repositories)
        acknowledge(
            self, "EKS's and HyperPod's images are in accounts of AWS, another in each region", wildcard(repositories)
        )

    def _allow_sessions(self) -> None:
        self._allow(SESSION_ACTIONS, "*")

    def _allow_logs(self, cluster_name: str) -> None:
        stack = Stack.of(self)
        groups = f"arn:aws:logs:{stack.region}:{stack.account}:log-group:{LOGS_AND_METRICS}/{cluster_name}/*"
        self._allow(
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"], groups
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": LOGS_AND_METRICS}},
            )
        )
        acknowledge(self, "The group's name ends in the cluster's id, which SageMaker chooses", wildcard(groups))

    def _allow_to_read(self, bucket: s3.IBucket, why: str) -> None:
        self._allow(["s3:ListBucket"], bucket.bucket_arn)
        self._allow(["s3:GetObject"], bucket.arn_for_objects("*"))
        objects = wildcard(f"{imported(bucket.bucket_arn, bucket)}/*")
        acknowledge(self, why, objects)

    def _allow(self, actions: list[str] | tuple[str, ...], *resources: str) -> None:
        self.role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources)))
