"""Define a small app: a network, an EKS cluster, a custom resource, and a Helm release with the resource's response."""

from pathlib import Path

from aws_cdk import App, CfnOutput, CustomResource, Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as resources
from aws_cdk.aws_s3_assets import Asset
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct

HERE = Path(__file__).parent


class Greeter(Stack):
    """A stack with a greeter that runs on an EKS cluster of its own."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name="greeter",
            version=eks.KubernetesVersion.V1_35,
            vpc=ec2.Vpc(self, "Vpc", max_azs=2, nat_gateways=1),
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=1,
            kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV35Layer(self, "Kubectl")),
        )
        function = lambda_.Function(
            self,
            "Function",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="greeting.handler",
            code=lambda_.Code.from_asset(str(HERE / "function")),
        )
        provider = resources.Provider(self, "Provider", on_event_handler=function)
        greeting = CustomResource(
            self,
            "Greeting",
            resource_type="Custom::Greeting",
            service_token=provider.service_token,
            properties={"Name": cluster.cluster_name},
        ).get_att_string("Greeting")
        cluster.add_helm_chart(
            "Release",
            release="greeter",
            namespace="greetings",
            chart_asset=Asset(self, "Chart", path=str(HERE / "chart")),
            values={"greeting": greeting},
            wait=True,
            timeout=Duration.minutes(5),
        )
        CfnOutput(self, "Answer", value=greeting)


app = App()
Greeter(app, "greeter")
app.synth()
