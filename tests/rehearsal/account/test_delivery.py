"""The workflows' roles, deployed in the account: GitHub's jobs alone may assume them, and are refused nothing.

The commands that ask the Kubernetes API run in `test_every_day`.
"""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sns as sns
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

import config
from config import naming
from config.facts import support
from config.load import DIRECTORY, DIRECTORY_VARIABLE
from embedded_account.context import Account
from embedded_account.machine import isolation
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import FakeFunctions, StackDeployer, Template, topic
from ops.commands.whole import app
from ops.drift.cluster import RESOURCE_TYPE
from stacks.delivery.stack import ISSUER
from tests.rehearsal.account import cdk_cli, delivery_roles
from tests.support import people, workflows
from tests.support.workflows import WorkflowCommand

pytestmark = pytest.mark.product

DEV = config.load("dev")
DEPLOYED: Template = {"Resources": {"T": topic()}}
COMMANDS = workflows.commands(DEV.name)


@pytest.fixture
def outputs(tmp_path: Path, clients: Clients) -> dict[str, str]:
    """Return the outputs of the deployed stack of `dev`."""
    return delivery_roles.deploy(clients, DEV, tmp_path / "delivery")


class Job:
    """Runs commands of GitHub's jobs in one folder, each with what the job gets for its token. Nothing is refused."""

    def __init__(self, account: Account, clients: Clients, outputs: dict[str, str], directory: Path) -> None:
        self._account, self._clients, self._outputs, self._directory = account, clients, outputs, directory

    def command(self, typed: str, github_environment: str) -> WorkflowCommand:
        """Return the workflows' command that begins so."""
        [found] = [
            each
            for each in COMMANDS
            if each.github_environment == github_environment and " ".join(each.words).startswith(typed)
        ]
        return found

    def environment(self, command: WorkflowCommand) -> dict[str, str]:
        """Return the variables of a command, with the job's credentials."""
        keys = delivery_roles.job_credentials(
            self._account,
            self._clients,
            delivery_roles.role_of(self._outputs, command.github_environment),
            github_environment=command.github_environment,
            seconds=command.seconds,
        )
        own = {DIRECTORY_VARIABLE: str(DIRECTORY), support.TODAY_VARIABLE: str(support.today())}
        return isolation.child_environment(
            self._directory,
            endpoint=self._account.endpoint,
            region=DEV.region,
            account_id=DEV.account,
            extra=keys | own,
        )

    def ops(self, typed: str, github_environment: str, *more: str, code: int = 0, digest: str = "") -> Result:
        """Run the workflows' command that begins with `typed`, with more arguments."""
        command, since = self.command(f"ops {typed}", github_environment), len(self._account.journal.entries())
        words = [digest if word == "$DIGEST" else word for word in command.words[1:]]
        done = CliRunner(env=self.environment(command)).invoke(app, [*words, *more])
        assert done.exit_code == code, done.output
        self.assert_not_refused(github_environment, since)
        return done

    def assert_not_refused(self, github_environment: str, since: int) -> None:
        """Fail if the job's role was refused something after the journal's entry number `since`."""
        role = delivery_roles.role_of(self._outputs, github_environment).rpartition("/")[2]
        assert people.refusals(self._account, since, role) == []


@pytest.fixture
def job(account: Account, clients: Clients, outputs: dict[str, str], tmp_path: Path) -> Job:
    """Return what runs commands as the jobs of `dev` do."""
    return Job(account, clients, outputs, tmp_path)


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


@pytest.mark.parametrize(
    ("github_environment", "repository", "role"),
    [
        ("dev-read", delivery_roles.REPOSITORY, "DeployRoleArn"),
        ("dev", delivery_roles.REPOSITORY, "ReadRoleArn"),
        ("prod", delivery_roles.REPOSITORY, "DeployRoleArn"),
        ("dev", "example-org/fork", "DeployRoleArn"),
    ],
)
def test_token_of_another_job_opens_no_role(
    account: Account,
    clients: Clients,
    outputs: dict[str, str],
    *,
    github_environment: str,
    repository: str,
    role: str,
) -> None:
    with pytest.raises(ClientError, match="Not authorized to perform sts:AssumeRoleWithWebIdentity"):
        delivery_roles.job_credentials(
            account, clients, outputs[role], github_environment=github_environment, repository=repository
        )


@pytest.mark.parametrize("key", ["DeployRoleArn", "ReadRoleArn"])
def test_token_of_another_issuer_gets_no_credentials(outputs: dict[str, str], clients: Clients, key: str) -> None:
    with pytest.raises(ClientError, match="InvalidIdentityToken"):
        clients("sts").assume_role_with_web_identity(
            RoleArn=outputs[key], RoleSessionName="job", WebIdentityToken="another issuer's"
        )


def test_job_deploys_the_plan_that_another_job_showed(
    job: Job, account: Account, stacks: StackDeployer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both jobs synthesise in one folder, as in a checkout; the CDK CLI is the project's."""
    monkeypatch.chdir(tmp_path)
    synthesise(tmp_path / "cdk.out")
    cdk_cli.bootstrap(account, DEV, account.keys.aws, tmp_path)
    stacks.deploy(naming.stack(DEV, "eks"), DEPLOYED)
    digest = json.loads(job.ops("plan", "dev-read", "-o", "json").stdout)["digest"]
    planned = json.loads(job.ops("plan", "dev", "-o", "json", digest=digest).stdout)
    assert [each["stack"] for each in planned["stacks"] if each["exists"]] == [naming.stack(DEV, "eks")]
    command, since = job.command("cdk deploy", "dev"), len(account.journal.entries())
    cdk_cli.run(tmp_path, *command.words[1:], env=job.environment(command))
    job.assert_not_refused("dev", since)
    for part in DEV.stacks:
        assert stacks.physical_id(naming.stack(DEV, part), "Topic")


def synthesise(directory: Path) -> None:
    """Write an app with the environment's stacks, each of them with one topic."""
    made = cdk.App(analytics_reporting=False, outdir=str(directory))
    where = cdk.Environment(account=DEV.account, region=DEV.region)
    for part in naming.STACKS:
        sns.CfnTopic(cdk.Stack(made, naming.stack(DEV, part), env=where), "Topic")
    made.synth()


def test_job_looks_for_drift_of_stacks_and_of_the_cluster(
    job: Job, stacks: StackDeployer, functions: FakeFunctions
) -> None:
    stacks.deploy(naming.stack(DEV, "network"), DEPLOYED)
    provider = functions.function("provider", lambda _: {"PhysicalResourceId": DEV.hyperpod.cluster_name})
    cluster = {
        "Type": RESOURCE_TYPE,
        "Properties": {"ServiceToken": provider, "ClusterName": DEV.hyperpod.cluster_name},
    }
    stacks.deploy(naming.stack(DEV, "hyperpod"), {"Resources": {"Cluster": cluster}})
    [found] = json.loads(job.ops("drift", "dev-read", code=1).stdout)["drift"]
    assert (found["kind"], found["detail"]) == ("HyperPod cluster", "is deleted")


def test_job_of_a_deployment_cannot_assume_the_role_that_creates_resources(
    account: Account, clients: Clients, outputs: dict[str, str], aws_session: Any
) -> None:
    keys = delivery_roles.job_credentials(account, clients, outputs["DeployRoleArn"], github_environment="dev")
    own = people.client_of(aws_session, account.endpoint, keys)
    arn = naming.bootstrap_role(DEV, "cfn-exec")
    trust = {"Effect": "Allow", "Principal": {"AWS": DEV.account}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    clients("iam").create_role(RoleName=arn.rpartition("/")[2], AssumeRolePolicyDocument=document)
    with pytest.raises(ClientError, match="not authorized to perform: sts:AssumeRole"):
        own("sts").assume_role(RoleArn=arn, RoleSessionName="cdk")
