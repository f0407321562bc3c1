"""An EKS cluster that exists: used, and left as it was."""

from typing import Final

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from config.model import ExistingEks
from stacks.eks.access_entries import ADMIN_POLICY, EVERYWHERE
from stacks.eks.kubectl_access import acknowledge_kubectl_provider, kubectl_layer, kubectl_role
from stacks.network.vpc import Vpc

_ALL: Final = "-1"


class ExistingEksCluster(Construct):
    """The cluster by its name, reached by functions and an access entry of the environment's own.

    Whatever goes into the cluster depends on `access`: for a cluster of its own CDK sees to that itself. All that is
    added are resources of this stack, and they go with it.
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
        vpc: Vpc,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, id)
        role = kubectl_role(self, cluster_name=existing.name)
        provider = eks.KubectlProvider(
            self,
            "KubectlProvider",
            # The provider asks a cluster for its ARN and VPC, and the cluster below needs the provider.
            cluster=eks.Cluster.from_cluster_attributes(self, "Plain", cluster_name=existing.name, vpc=vpc.vpc),
            role=role,
            kubectl_layer=kubectl_layer(self, version),
            private_subnets=vpc.control_plane_subnets,
            security_groups=[security_group],
        )
        acknowledge_kubectl_provider(provider)
        # Of the policies that CDK's own kubectl role would have; nothing reads it.
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
        # Charts bring cluster roles: Kubernetes lets only those grant a right who have it.
        entry = eks.CfnAccessEntry(
            self,
            "KubectlAccess",
            cluster_name=existing.name,
            principal_arn=role.role_arn,
            access_policies=[eks.CfnAccessEntry.AccessPolicyProperty(policy_arn=ADMIN_POLICY, access_scope=EVERYWHERE)],
        )
        self.access = [entry, *self._reach_each_other(existing.security_group, security_group.security_group_id)]

    def _reach_each_other(self, cluster_group: str, shared_group: str) -> list[IDependable]:
        """Rules between the environment's nodes and the cluster's control plane and nodes (API, kubelets, DNS, pods).

        Inbound rules only: CloudFormation takes the default outbound rule off a group that gets one of its own
        (aws-cdk#987), and EKS gives its group, as the environment its own, everything outbound.
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
