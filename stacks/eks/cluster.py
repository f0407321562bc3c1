"""The EKS control plane."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from constructs import Construct

from config import naming
from config.model import Eks
from stacks.eks.kubectl_access import acknowledge_kubectl_provider, kubectl_layer, kubectl_role
from stacks.network.vpc import EnvironmentVpc
from stacks.shared.log_group import declared_log_group
from stacks.shared.nag_suppressions import acknowledge, managed_policy


class EksControlPlane(Construct):
    """A control plane in two zones. Its API is reachable inside the VPC, and outside from the configured CIDRs only.

    Access needs an access entry (authentication mode `API`), even for the principal that created the cluster.
    """

    cluster: eks.ICluster

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        settings: Eks,
        vpc: EnvironmentVpc,
        security_group: ec2.ISecurityGroup,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        # EKS would create this log group itself, without a retention, and never delete it.
        log_group = declared_log_group(self, "Log", name=naming.control_plane_log_group(name))
        role = kubectl_role(self, cluster_name=name)
        cluster = eks.Cluster(
            self,
            "Resource",
            cluster_name=name,
            version=eks.KubernetesVersion.of(settings.version),
            vpc=vpc.vpc,
            # EKS requires two zones; a third would only add a network interface.
            vpc_subnets=[ec2.SubnetSelection(subnets=vpc.control_plane_subnets[:2])],
            # HyperPod's nodes are in the shared group only, and CDK's own group would have no ingress rule for them.
            security_group=security_group,
            endpoint_access=_endpoint_access(settings),
            cluster_logging=list(eks.ClusterLoggingTypes),
            secrets_encryption_key=key or self._own_key(name),
            bootstrap_cluster_creator_admin_permissions=False,
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=kubectl_layer(self, settings.version),
                role=role,
                # Not EKS's own group: it is deleted with the cluster, which the functions' interfaces outlive.
                security_groups=[security_group],
            ),
        )
        acknowledge_kubectl_provider(cluster.node.find_child("KubectlProvider"))
        # A condition of the policies of CDK's own kubectl role; nothing uses it here.
        self.node.try_remove_child("HasEcrPublic")
        acknowledge(cluster.role, "EKS requires this policy", managed_policy("AmazonEKSClusterPolicy"))
        cluster.node.find_child("Resource").node.add_dependency(log_group)
        # CDK creates the OIDC provider when this property is first read: read it here, not first in the stack of the
        # first pod with a role.
        _ = cluster.open_id_connect_provider
        # In the types of CDK 2.275.0 Cluster lacks ICluster's kubectl_provider_options; at run time it has them.
        self.cluster = cluster  # type: ignore[assignment]

    def _own_key(self, name: str) -> kms.IKey:
        return kms.Key(
            self,
            "SecretsKey",
            description=f"Kubernetes secrets of {name}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
            # AWS's minimum. The secrets that the key encrypts are deleted with the cluster.
            pending_window=Duration.days(7),
        )


def _endpoint_access(settings: Eks) -> eks.EndpointAccess:
    if settings.endpoint_access == "private":
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*map(str, settings.public_access_cidrs))
