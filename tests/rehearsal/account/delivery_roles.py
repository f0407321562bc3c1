"""Deploy the roles of GitHub's workflows in a test's account, and assume them as GitHub's jobs do."""

import json
from pathlib import Path
from typing import Final

import aws_cdk as cdk

from config import EksEnvironment
from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from embedded_account.testing.token_issuer import FakeTokenIssuer
from stacks.delivery.stack import ISSUER, DeliveryStack
from stacks.shared.company_rules import apply_company_rules
from tests.support import assumed_role

REPOSITORY: Final = "example-org/rayhp"


def deploy(clients: Clients, environment: EksEnvironment, directory: Path) -> dict[str, str]:
    """Deploy the delivery stack, for which only a bootstrap's version exists; return its outputs, the roles' ARNs."""
    app = cdk.App(analytics_reporting=False, outdir=str(directory))
    name = DeliveryStack(app, environment=environment, repository=REPOSITORY, creates_provider=True).stack_name
    apply_company_rules(app, environment)
    app.synth()
    template = json.loads((directory / f"{name}.template.json").read_text())
    version = template["Parameters"]["BootstrapVersion"]["Default"]
    clients("ssm").put_parameter(Name=version, Value="30", Type="String")
    stacks = StackDeployer(clients("cloudformation"))
    assert stacks.deploy(name, template, Capabilities=["CAPABILITY_IAM"]) == "CREATE_COMPLETE"
    clients("ssm").delete_parameter(Name=version)
    return stacks.outputs(name)


def role_of(outputs: dict[str, str], github_environment: str) -> str:
    """Return the role of a job in this GitHub environment: its variable AWS_ROLE_ARN (docs/operate/deliver.md)."""
    return outputs["ReadRoleArn" if github_environment.endswith("-read") else "DeployRoleArn"]


def job_credentials(
    account: Account,
    clients: Clients,
    role: str,
    *,
    github_environment: str,
    repository: str = REPOSITORY,
    seconds: int = 3600,
) -> dict[str, str]:
    """Return what a job in this GitHub environment gets for its token, as environment variables."""
    issuer = account.token_issuers.setdefault(f"https://{ISSUER}", FakeTokenIssuer())
    assert isinstance(issuer, FakeTokenIssuer)
    answer = clients("sts").assume_role_with_web_identity(
        RoleArn=role,
        RoleSessionName="GitHubActions",
        DurationSeconds=seconds,
        WebIdentityToken=issuer.token(f"repo:{repository}:environment:{github_environment}"),
    )
    return assumed_role.variables(answer["Credentials"])
