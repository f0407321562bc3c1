"""Deploy a role of pods in a test's account, as the ray stack of `dev` makes it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

import config
from config import naming
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from stacks.shared.irsa import IrsaRole

DEV: Final = config.load("dev")
_ISSUER: Final = f"oidc.eks.{DEV.region}.amazonaws.com/id/0123456789ABCDEF"


def deploy(clients: Clients, directory: Path, make: Callable[[cdk.Stack, eks.ICluster], IrsaRole]) -> str:
    """Deploy a stack with the ray stack's name, and nothing but the role that `make` adds; return the role's ARN."""
    app = cdk.App(analytics_reporting=False, outdir=str(directory))
    name = naming.stack(DEV, "ray")
    stack = cdk.Stack(app, name)
    provider = f"arn:aws:iam::{DEV.account}:oidc-provider/{_ISSUER}"
    cluster = eks.Cluster.from_cluster_attributes(
        stack,
        "Cluster",
        cluster_name=naming.eks_cluster(DEV),
        open_id_connect_provider=iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(stack, "Issuer", provider),
    )
    cdk.CfnOutput(stack, "Arn", value=make(stack, cluster).arn)
    app.synth()
    template = json.loads((directory / f"{name}.template.json").read_text())
    clients("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    stacks = StackDeployer(clients("cloudformation"))
    assert stacks.deploy(name, template, Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"
    return stacks.outputs(name)["Arn"]
