"""The workflows' roles, deployed in the account: IAM accepts them, and GitHub's jobs alone may assume them."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from botocore.exceptions import ClientError

import config
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from stacks.delivery.stack import ISSUER, DeliveryStack

pytestmark = pytest.mark.product


@pytest.fixture
def outputs(tmp_path: Path, stacks: StackDeployer, clients: Clients) -> dict[str, str]:
    """Return the outputs of the deployed stack of `dev`, in an account with CDK's bootstrap."""
    app = cdk.App(analytics_reporting=False, outdir=str(tmp_path))
    name = DeliveryStack(
        app, environment=config.load("dev"), repository="example-org/rayhp", creates_provider=True
    ).stack_name
    app.synth()
    clients("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    template = json.loads((tmp_path / f"{name}.template.json").read_text())
    assert stacks.deploy(name, template, Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"
    return stacks.outputs(name)


def test_iam_accepts_the_roles_and_their_trust_is_what_the_stack_says(
    outputs: dict[str, str], clients: Clients
) -> None:
    iam = clients("iam")
    [provider] = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    for key, subject in (("DeployRoleArn", "dev"), ("ReadRoleArn", "dev-read")):
        role: Any = iam.get_role(RoleName=outputs[key].rpartition("/")[2])["Role"]
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Federated": provider["Arn"]}
        assert trust["Condition"]["StringEquals"][f"{ISSUER}:sub"] == f"repo:example-org/rayhp:environment:{subject}"


@pytest.mark.parametrize("key", ["DeployRoleArn", "ReadRoleArn"])
def test_token_of_another_issuer_gets_no_credentials(outputs: dict[str, str], clients: Clients, key: str) -> None:
    with pytest.raises(ClientError, match="InvalidIdentityToken"):
        clients("sts").assume_role_with_web_identity(
            RoleArn=outputs[key], RoleSessionName="job", WebIdentityToken="another issuer's"
        )
