"""Deploy the roles of GitHub's workflows in a test's account, and call AWS with them."""

import json
from pathlib import Path

import aws_cdk as cdk

from config import EksEnvironment
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from stacks.delivery.stack import DeliveryStack


def deploy(clients: Clients, environment: EksEnvironment, directory: Path) -> dict[str, str]:
    """Deploy the delivery stack in an account with CDK's bootstrap; return its outputs, the roles' ARNs.

    Only GitHub's tokens open these roles. The account's owner assumes them instead: its calls are not evaluated.
    """
    app = cdk.App(analytics_reporting=False, outdir=str(directory))
    name = DeliveryStack(app, environment=environment, repository="example-org/rayhp", creates_provider=True).stack_name
    app.synth()
    clients("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    template = json.loads((directory / f"{name}.template.json").read_text())
    stacks = StackDeployer(clients("cloudformation"))
    assert stacks.deploy(name, template, Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"
    return stacks.outputs(name)
