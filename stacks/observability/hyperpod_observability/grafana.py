"""A workspace of Amazon Managed Grafana, which people of IAM Identity Center sign in to."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_grafana as grafana
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.model import Grafana
from stacks.shared.company_key import may_use
from stacks.shared.nag_suppressions import acknowledge, wildcard


class GrafanaWorkspace(Construct):
    """The workspace, the networks that may reach it, and its role, which may only query one Prometheus workspace.

    AWS offers two limits to who reaches a workspace: lists of public networks, and VPC endpoints (Amazon Managed
    Grafana user guide, AMG-configure-nac). Lists suffice: people sign in at the public portal of Identity Center, and
    no program in the VPC uses the workspace. Its queries need no VPC either: Prometheus answers at AWS's own endpoint
    (the same guide, AMG-configure-vpc). A workspace made by CloudFormation gets no role from AWS (API reference,
    CreateWorkspace), and AWS's key encrypts its dashboards: the resource type knows no other.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        prometheus_arn: str,
        settings: Grafana,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        networks = ec2.CfnPrefixList(
            self,
            "Networks",
            prefix_list_name=name,
            address_family="IPv4",
            # A list cannot change its entries and its size at once (EC2 API reference, ModifyManagedPrefixList).
            max_entries=Grafana.MOST_NETWORKS,
            entries=[
                ec2.CfnPrefixList.EntryProperty(cidr=str(block), description="people who use Grafana")
                for block in settings.public_access_cidrs
            ],
        )
        workspace = grafana.CfnWorkspace(
            self,
            "Workspace",
            name=name,
            account_access_type="CURRENT_ACCOUNT",
            authentication_providers=["AWS_SSO"],
            permission_type="CUSTOMER_MANAGED",
            role_arn=self._role(name, prometheus_arn, key).role_arn,
            network_access_control=grafana.CfnWorkspace.NetworkAccessControlProperty(
                prefix_list_ids=[networks.attr_prefix_list_id], vpce_ids=[]
            ),
        )
        CfnOutput(self, "Address", value=f"https://{workspace.attr_endpoint}", description="Grafana for people")

    def _role(self, name: str, prometheus_arn: str, key: kms.IKey | None) -> iam.Role:
        stack = Stack.of(self)
        # The id of the workspace is unknown before its role exists (user guide, confused deputy prevention).
        of_own_workspaces = {
            "StringEquals": {"aws:SourceAccount": stack.account},
            "StringLike": {"aws:SourceArn": f"arn:aws:grafana:{stack.region}:{stack.account}:/workspaces/*"},
        }
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("grafana.amazonaws.com", conditions=of_own_workspaces),
            description=f"Grafana workspace {name}: queries one Prometheus workspace",
        )
        # The actions of AWS's own policy for Prometheus (user guide, AMG-manage-permissions), there on every workspace.
        queries = ("DescribeWorkspace", "GetLabels", "GetMetricMetadata", "GetSeries", "QueryMetrics")
        role.add_to_policy(
            iam.PolicyStatement(actions=[f"aps:{query}" for query in queries], resources=[prometheus_arn])
        )
        role.add_to_policy(iam.PolicyStatement(actions=["aps:ListWorkspaces"], resources=["*"]))
        if key:
            role.add_to_policy(may_use(key, "aps", "kms:Decrypt"))
        acknowledge(role, "Grafana's page of AWS data sources lists workspaces, but may read one", wildcard("*"))
        return role
