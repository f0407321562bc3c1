"""Interface endpoints of a closed network, for every AWS API that its nodes, pods and functions call."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

INTERFACE_ENDPOINTS: Final = {
    "ec2": "VPC CNI on every node: interfaces and addresses of pods; a node's own description when it starts",
    "ecr.api": "kubelet and image build: logins to ECR",
    "ecr.dkr": "kubelet and image build: pulls and pushes (layers go through the S3 endpoint)",
    "eks": "CDK's kubectl functions and starting nodes: DescribeCluster",
    "eks-auth": "EKS's pod identity agent: credentials of pods with an association",
    "fsx": "FSx CSI driver: file systems",
    "lambda": "CDK's provider framework, which runs in the VPC beside the kubectl function that it calls; the sleeper",
    "logs": "lifecycle scripts, health monitoring agent, deep health checks",
    "monitoring": "health monitoring agent: metrics",
    "sagemaker.api": "VPC CNI after 1.23.1 on HyperPod's nodes: attaches interfaces (amazon-vpc-cni-k8s #3874)",
    "ssm": "SSM agent of HyperPod's nodes: its registration",
    "ssmmessages": "SSM agent: sessions on a node",
    "ec2messages": "SSM agent before 3.3.40: commands and sessions",
    "sts": "pods with an IAM role (IRSA): image build, CSI driver, Ray; VPC CNI after 1.23.1: its account",
}
"""The reason for each endpoint, by service.

AWS's own modules for a closed HyperPod network (hyperpod-eks-tf, modules/vpc_endpoints) have no other but sqs, which
Karpenter calls. Nothing in the VPC calls autoscaling, elasticloadbalancing, kms or states: AWS serves node groups, load
balancers, keys and the HyperPod cluster's waiter from outside the VPC.
"""

TRACKING_SERVICE: Final = "sagemaker.experiments"
"""With `mlflow: managed`: jobs log to SageMaker's MLflow with signed requests."""
PROMETHEUS_ENDPOINT: Final = "aps-workspaces"
"""With `observability.hyperpod`: the add-on's collector writes its metrics."""
ALERTS_ENDPOINT: Final = "sns"
"""With receivers of `observability.in_cluster`: Alertmanager publishes alerts. CloudWatch is outside the VPC."""

SIGNED_BY_OWN_ROLES: Final = frozenset({"ec2", "eks", "fsx", "lambda", "logs", "monitoring", "sagemaker.api"})
"""Endpoints that only roles of the account call, with signed requests: their policy admits no other account.

The other endpoints keep AWS's open policy: STS's web identity calls, SSM's registration and ECR's tokens are not
requests of a role, and image layers come from AWS's own bucket.
"""


class VpcEndpoints(Construct):
    """One endpoint per service, with private DNS and a network interface in each zone's node subnet.

    Their security group accepts TLS from the whole VPC: kubectl functions, system nodes and HyperPod nodes are in
    different groups, and a node that cannot reach an endpoint never joins the cluster. Only the account's roles may use
    `further` endpoints.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        vpc_cidr: str,
        subnets: list[ec2.ISubnet],
        region: str,
        further: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, id)
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="Interface endpoints of AWS APIs", allow_all_outbound=False
        )
        group.add_ingress_rule(ec2.Peer.ipv4(vpc_cidr), ec2.Port.tcp(443), "TLS from the VPC")
        names = {service: f"com.amazonaws.{region}.{service}" for service in (*INTERFACE_ENDPOINTS, *further)}
        if TRACKING_SERVICE in names:
            # AWS PrivateLink guide, "AWS services that integrate": not below com.amazonaws.
            names[TRACKING_SERVICE] = f"aws.sagemaker.{region}.experiments"
        for service, name in names.items():
            endpoint = ec2.CfnVPCEndpoint(
                self,
                service,
                vpc_id=vpc.vpc_id,
                service_name=name,
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[subnet.subnet_id for subnet in subnets],
                security_group_ids=[group.security_group_id],
                policy_document=self._own_roles() if service in {*SIGNED_BY_OWN_ROLES, *further} else None,
            )
            Tags.of(endpoint).add("Name", endpoint.node.path)

    def _own_roles(self) -> iam.PolicyDocument:
        return iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(
                    principals=[iam.AnyPrincipal()],
                    actions=["*"],
                    resources=["*"],
                    conditions={"StringEquals": {"aws:PrincipalAccount": Stack.of(self).account}},
                )
            ]
        )
