"""The EKS control plane."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.model import Eks
from stacks.constructs.acknowledge import acknowledge, managed_policy
from stacks.constructs.kubectl_access import acknowledge_kubectl_provider, kubectl_access
from stacks.constructs.log_group import declared_log_group
from stacks.constructs.vpc import Vpc


class EksCluster(Construct):
    """A control plane in two zones whose API answers inside the VPC, and outside to the environment's CIDRs only.

    Nobody has access but by an access entry (authentication mode `API`), whoever created it included.
    """

    cluster: eks.Cluster
    open_id_connect_provider: iam.IOpenIdConnectProvider

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        settings: Eks,
        vpc: Vpc,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, id)
        # EKS would make this group itself, without a retention, and leave it behind.
        log_group = declared_log_group(self, "Log", name=f"/aws/eks/{name}/cluster")
        self.cluster = eks.Cluster(
            self,
            "Resource",
            cluster_name=name,
            version=eks.KubernetesVersion.of(settings.version),
            vpc=vpc.vpc,
            # Two zones are what EKS asks for; the third would only hold another interface.
            vpc_subnets=[ec2.SubnetSelection(subnets=vpc.control_plane_subnets[:2])],
            # CDK's own group would have no ingress: HyperPod's nodes carry the shared one only.
            security_group=security_group,
            endpoint_access=eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*map(str, settings.public_access_cidrs)),
            cluster_logging=list(eks.ClusterLoggingTypes),
            secrets_encryption_key=kms.Key(
                self,
                "SecretsKey",
                description=f"Kubernetes secrets of {name}",
                enable_key_rotation=True,
                removal_policy=RemovalPolicy.DESTROY,
                # AWS's shortest: what it encrypted goes with the cluster.
                pending_window=Duration.days(7),
            ),
            bootstrap_cluster_creator_admin_permissions=False,
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            kubectl_provider_options=kubectl_access(self, cluster_name=name, security_group=security_group),
        )
        acknowledge_kubectl_provider(self.cluster)
        # Of the policies that CDK's own kubectl role would have; nothing reads it.
        self.node.try_remove_child("HasEcrPublic")
        acknowledge(self.cluster.role, "EKS requires this policy", managed_policy("AmazonEKSClusterPolicy"))
        self.cluster.node.find_child("Resource").node.add_dependency(log_group)
        # CDK makes it when it is first asked for: here, and not from the stack of the first pod with a role.
        self.open_id_connect_provider = self.cluster.open_id_connect_provider
