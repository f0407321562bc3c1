"""The workflows' roles, deployed in the account: GitHub's jobs alone may assume them, and are refused nothing."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

import config
from config import naming
from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import FakeFunctions, StackDeployer, Template, topic
from ops import clients as ops_clients
from ops.commands.whole import app
from ops.drift.cluster import RESOURCE_TYPE
from ops.stacks import DESTROY_ORDER
from stacks.delivery.stack import ISSUER
from tests.rehearsal.account import delivery_roles
from tests.support import assumed_role, people

pytestmark = pytest.mark.product

DEV = config.load("dev")
DEPLOYED: Template = {"Resources": {"T": topic()}}


@dataclass
class Caller:
    client: Clients


@pytest.fixture
def outputs(tmp_path: Path, clients: Clients) -> dict[str, str]:
    """Return the outputs of the deployed stack of `dev`."""
    return delivery_roles.deploy(clients, DEV, tmp_path / "delivery")


@pytest.fixture
def ops(
    outputs: dict[str, str], account: Account, clients: Clients, aws_session: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return a command of `ops` with its exit code, as a job whose role is one of the outputs; nothing is refused."""

    def run(key: str, *words: str, code: int = 0) -> Result:
        role, since = assumed_role.credentials(clients, outputs[key]), len(account.journal.entries())
        caller = Caller(people.client_of(aws_session, account.endpoint, role))
        monkeypatch.setattr(ops_clients, "CallerAccount", lambda _: caller)
        done = CliRunner().invoke(app, [*words, "--env", "dev"])
        assert done.exit_code == code, done.output
        assert people.refusals(account, since, outputs[key].rpartition("/")[2]) == []
        return done

    return run


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


@pytest.mark.parametrize("key", ["DeployRoleArn", "ReadRoleArn"])
def test_plan_of_a_job_compares_what_is_deployed(
    ops: Callable[..., Result], stacks: StackDeployer, tmp_path: Path, key: str
) -> None:
    stacks.deploy(naming.stack(DEV, "eks"), DEPLOYED)
    for part in DESTROY_ORDER:
        (tmp_path / f"{naming.stack(DEV, part)}.template.json").write_text(json.dumps(DEPLOYED))
    planned = json.loads(ops(key, "plan", "--app", str(tmp_path), "-o", "json").stdout)
    assert [each["stack"] for each in planned["stacks"] if each["exists"]] == [naming.stack(DEV, "eks")]


def test_job_looks_for_drift_of_stacks_and_of_the_cluster(
    ops: Callable[..., Result], stacks: StackDeployer, functions: FakeFunctions
) -> None:
    stacks.deploy(naming.stack(DEV, "network"), DEPLOYED)
    provider = functions.function("provider", lambda _: {"PhysicalResourceId": DEV.hyperpod.cluster_name})
    cluster = {
        "Type": RESOURCE_TYPE,
        "Properties": {"ServiceToken": provider, "ClusterName": DEV.hyperpod.cluster_name},
    }
    stacks.deploy(naming.stack(DEV, "hyperpod"), {"Resources": {"Cluster": cluster}})
    [found] = json.loads(ops("ReadRoleArn", "drift", "-o", "json", code=1).stdout)["drift"]
    assert (found["kind"], found["detail"]) == ("HyperPod cluster", "is deleted")


def test_job_of_a_deployment_assumes_the_bootstraps_roles_and_no_others(
    outputs: dict[str, str], account: Account, clients: Clients, aws_session: Any
) -> None:
    own = people.client_of(aws_session, account.endpoint, assumed_role.credentials(clients, outputs["DeployRoleArn"]))
    trust = {"Effect": "Allow", "Principal": {"AWS": DEV.account}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    for name in (*naming.BOOTSTRAP_ROLES, "cfn-exec"):
        arn = naming.bootstrap_role(DEV, name)
        clients("iam").create_role(RoleName=arn.rpartition("/")[2], AssumeRolePolicyDocument=document)
        role = {"RoleArn": arn, "RoleSessionName": "cdk"}
        if name != "cfn-exec":
            assert own("sts").assume_role(**role)["Credentials"]
            continue
        with pytest.raises(ClientError, match="not authorized to perform: sts:AssumeRole"):
            own("sts").assume_role(**role)
