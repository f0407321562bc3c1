"""The EKS control plane."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.model import Eks
from stacks.eks.kubectl_access import acknowledge_kubectl_provider, kubectl_layer, kubectl_role
from stacks.network.vpc import Vpc
from stacks.shared.log_group import declared_log_group
from stacks.shared.nag_suppressions import acknowledge, managed_policy


class EksCluster(Construct):
    """A control plane in two zones whose API answers inside the VPC, and outside, if at all, to the given CIDRs only.

    Nobody has access but by an access entry (authentication mode `API`), whoever created it included.
    """

    cluster: eks.ICluster

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
        role = kubectl_role(self, cluster_name=name)
        cluster = eks.Cluster(
            self,
            "Resource",
            cluster_name=name,
            version=eks.KubernetesVersion.of(settings.version),
            vpc=vpc.vpc,
            # Two zones are what EKS asks for; the third would only hold another interface.
            vpc_subnets=[ec2.SubnetSelection(subnets=vpc.control_plane_subnets[:2])],
            # CDK's own group would have no ingress: HyperPod's nodes carry the shared one only.
            security_group=security_group,
            endpoint_access=_endpoint_access(settings),
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
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=kubectl_layer(self, settings.version),
                role=role,
                # In EKS's own group the functions' interfaces would outlive the cluster that the group goes with.
                security_groups=[security_group],
            ),
        )
        acknowledge_kubectl_provider(cluster.node.find_child("KubectlProvider"))
        # Of the policies that CDK's own kubectl role would have; nothing reads it.
        self.node.try_remove_child("HasEcrPublic")
        acknowledge(cluster.role, "EKS requires this policy", managed_policy("AmazonEKSClusterPolicy"))
        cluster.node.find_child("Resource").node.add_dependency(log_group)
        # CDK makes the OIDC provider when it is first asked for: here, and not from the stack of the first pod with a
        # role.
        _ = cluster.open_id_connect_provider
        # Cluster lacks kubectl_provider_options of ICluster's types in 2.275.0; it has it when it runs.
        self.cluster = cluster  # type: ignore[assignment]


def _endpoint_access(settings: Eks) -> eks.EndpointAccess:
    if settings.endpoint_access == "private":
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*map(str, settings.public_access_cidrs))
