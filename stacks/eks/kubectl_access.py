"""The layer and the IAM role with which CDK's functions run `kubectl` and `helm` in a deployment."""

from importlib import import_module
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct

from config.facts import versions
from stacks.shared.checkov_skips import explain_variables
from stacks.shared.environment_stack import asset_bucket
from stacks.shared.nag_suppressions import acknowledge, attribute_arn, managed_policy, wildcard

_NETWORK_POLICY: Final = "service-role/AWSLambdaVPCAccessExecutionRole"
_LOGS_POLICY: Final = "service-role/AWSLambdaBasicExecutionRole"


def kubectl_layer(scope: Construct, kubernetes_version: str) -> lambda_.ILayerVersion:
    """Return the Lambda layer with kubectl and Helm for a Kubernetes version.

    jsii loads 35 MB for each of CDK's layer packages, so only the required one is imported.
    """
    layer = versions.KUBECTL_LAYERS[kubernetes_version]
    package = import_module(f"aws_cdk.lambda_layer_kubectl_{layer}")
    made: lambda_.ILayerVersion = getattr(package, f"Kubectl{layer.upper()}Layer")(scope, "Kubectl")
    return made


def kubectl_role(scope: Construct, *, cluster_name: str) -> iam.IRole:
    """Return a role that may describe this cluster, read CDK assets and run functions in the VPC, and nothing else.

    CDK's own role could also read every image registry, for charts from registries; the project uses none.
    """
    stack = Stack.of(scope)
    cluster = stack.format_arn(service="eks", resource="cluster", resource_name=cluster_name)
    assets = f"arn:{stack.partition}:s3:::{asset_bucket(scope)}/*"
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
    return role.without_policy_updates()


def acknowledge_kubectl_provider(provider: IConstruct) -> None:
    """Accept findings about settings that CDK's provider framework does not let callers choose."""
    handler = provider.node.find_child("Handler")
    explain_variables(provider)
    acknowledge(provider, "CDK pins the newest Python that it has tested its handler with", "L1")
    acknowledge(
        provider,
        "CDK's provider framework: logs, interfaces in the VPC, and any version of the one handler behind it",
        managed_policy(_LOGS_POLICY),
        managed_policy(_NETWORK_POLICY),
        wildcard(f"{attribute_arn(handler)}:*"),
    )
