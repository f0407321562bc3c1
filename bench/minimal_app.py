"""The yardstick: the smallest CDK app with a VPC and an EKS cluster that kubectl can reach."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer

app = cdk.App()
stack = cdk.Stack(app, "Minimal")
vpc = ec2.Vpc(stack, "Vpc", max_azs=2)
eks.Cluster(
    stack,
    "Cluster",
    vpc=vpc,
    version=eks.KubernetesVersion.V1_35,
    default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
    default_capacity=0,
    kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV35Layer(stack, "Kubectl")),
)
app.synth()
