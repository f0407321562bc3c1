"""How CDK's functions reach the Kubernetes API: what `kubectl` and `helm` of a deployment run with."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import lambda_layer_kubectl_v35 as kubectl
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge, attribute_arn, managed_policy, wildcard

_NETWORK_POLICY: Final = "service-role/AWSLambdaVPCAccessExecutionRole"
_LOGS_POLICY: Final = "service-role/AWSLambdaBasicExecutionRole"


def kubectl_access(
    scope: Construct, *, cluster_name: str, security_group: ec2.ISecurityGroup
) -> eks.KubectlProviderOptions:
    """Return options whose role may look at this cluster and read assets, and nothing else of AWS.

    CDK's own role could read every image registry too: for charts from registries, which the project does not use.
    In EKS's own security group the functions' interfaces would outlive the cluster that the group goes with.
    """
    stack = Stack.of(scope)
    cluster = stack.format_arn(service="eks", resource="cluster", resource_name=cluster_name)
    qualifier = stack.synthesizer.bootstrap_qualifier
    assets = f"arn:{stack.partition}:s3:::cdk-{qualifier}-assets-{stack.account}-{stack.region}/*"
    role = iam.Role(
        scope,
        "KubectlRole",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_NETWORK_POLICY)],
        inline_policies={
            "cluster-and-charts": iam.PolicyDocument(
                statements=[
                    iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster]),
                    iam.PolicyStatement(actions=["s3:GetObject"], resources=[assets]),
                ]
            )
        },
    )
    acknowledge(role, "Interfaces of functions in a VPC have no ARN before they exist", managed_policy(_NETWORK_POLICY))
    acknowledge(role, "Charts are CDK assets, whose keys change with their content", wildcard(assets))
    return eks.KubectlProviderOptions(
        kubectl_layer=kubectl.KubectlV35Layer(scope, "Kubectl"),
        role=role.without_policy_updates(),
        security_groups=[security_group],
    )


def acknowledge_kubectl_provider(cluster: eks.Cluster) -> None:
    """Accept what CDK's provider framework does not let one choose."""
    provider = cluster.node.find_child("KubectlProvider")
    handler = provider.node.find_child("Handler")
    acknowledge(provider, "The newest Python that CDK has tried its handler with", "L1")
    acknowledge(
        provider,
        "CDK's provider framework: logs, interfaces in the VPC, and any version of the one handler behind it",
        managed_policy(_LOGS_POLICY),
        managed_policy(_NETWORK_POLICY),
        wildcard(f"{attribute_arn(handler)}:*"),
    )
