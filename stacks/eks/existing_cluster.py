"""An existing EKS cluster, used but not changed."""

from typing import Final

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from config.model import ExistingEks
from stacks.eks.access_entries import ADMIN_POLICY, EVERYWHERE
from stacks.eks.kubectl_access import acknowledge_kubectl_provider, kubectl_layer, kubectl_role
from stacks.network.vpc import EnvironmentVpc

_ALL: Final = "-1"


class ExistingEksCluster(Construct):
    """An existing cluster, referenced by name, with this environment's kubectl functions and their access entry.

    Everything deployed into the cluster must depend on `access`; for a cluster that CDK creates, CDK adds this
    dependency itself. All that is added belongs to this stack and is deleted with it.
    """

    cluster: eks.ICluster
    access: list[IDependable]

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        existing: ExistingEks,
        version: str,
        vpc: EnvironmentVpc,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, id)
        role = kubectl_role(self, cluster_name=existing.name)
        provider = eks.KubectlProvider(
            self,
            "KubectlProvider",
            # A second reference: the provider reads a cluster's ARN and VPC, but the cluster below needs the provider.
            cluster=eks.Cluster.from_cluster_attributes(self, "Plain", cluster_name=existing.name, vpc=vpc.vpc),
            role=role,
            kubectl_layer=kubectl_layer(self, version),
            private_subnets=vpc.control_plane_subnets,
            security_groups=[security_group],
        )
        acknowledge_kubectl_provider(provider)
        # A condition of the policies of CDK's own kubectl role; nothing uses it here.
        self.node.try_remove_child("HasEcrPublic")
        self.cluster = eks.Cluster.from_cluster_attributes(
            self,
            "Resource",
            cluster_name=existing.name,
            cluster_security_group_id=existing.security_group,
            vpc=vpc.vpc,
            open_id_connect_provider=iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(
                self, "OidcProvider", existing.oidc_provider_arn
            ),
            kubectl_provider=provider,
        )
        # Charts contain ClusterRoles, and Kubernetes lets a caller grant only rights that the caller has.
        entry = eks.CfnAccessEntry(
            self,
            "KubectlAccess",
            cluster_name=existing.name,
            principal_arn=role.role_arn,
            access_policies=[eks.CfnAccessEntry.AccessPolicyProperty(policy_arn=ADMIN_POLICY, access_scope=EVERYWHERE)],
        )
        self.access = [entry, *self._reach_each_other(existing.security_group, security_group.security_group_id)]

    def _reach_each_other(self, cluster_group: str, shared_group: str) -> list[IDependable]:
        """Allow the environment's nodes to reach the cluster's control plane and nodes, and back; return the rules.

        They serve the API, kubelets, DNS and pods. Inbound rules only: CloudFormation removes a group's default
        outbound rule as soon as the group gets another one (aws-cdk#987). Both groups allow all outbound traffic.
        """
        return [
            ec2.CfnSecurityGroupIngress(
                self,
                name,
                group_id=target,
                ip_protocol=_ALL,
                source_security_group_id=source,
                description=description,
            )
            for name, source, target, description in (
                ("FromNodes", shared_group, cluster_group, "Nodes of Ray on HyperPod"),
                ("FromCluster", cluster_group, shared_group, "EKS control plane and the cluster's own nodes"),
            )
        ]
