"""`ops drift` against the account: it finds what was changed by hand, and nothing in what was only deployed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

import config
from config import naming
from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer, failing
from ops import clients as ops_clients
from ops.commands.whole import app
from ops.drift.cluster import RESOURCE_TYPE, cluster_drifts
from ops.policy.role import PersonRole
from tests.rehearsal.conftest import AsPerson

pytestmark = pytest.mark.product

DEV = config.load("dev")
STACK = naming.stack(DEV, "network")
BROKEN = naming.stack(DEV, "storage")
TEMPLATE = {
    "Resources": {"Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "log", "RetentionInDays": 30}}}
}


@dataclass
class Account:
    client: Any


@pytest.fixture
def drift(as_person: AsPerson, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return the command `ops drift --env dev` with more arguments, as the operator."""
    operator = as_person(DEV, PersonRole.OPERATOR)
    monkeypatch.setattr(ops_clients, "CallerAccount", lambda _: Account(operator))
    return lambda *arguments: CliRunner().invoke(app, ["drift", "--env", "dev", *arguments])


def test_deployed_stack_has_no_drift(stacks: StackDeployer, drift: Callable[..., Result]) -> None:
    stacks.deploy(STACK, TEMPLATE)
    result = drift("-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["drift"]) == (0, [])
    assert f"stack {naming.stack(DEV, 'ray')} does not exist" in json.loads(result.stdout)["not_compared"]


def test_changed_and_deleted_resources_are_named(
    stacks: StackDeployer, clients: Clients, drift: Callable[..., Result]
) -> None:
    stacks.deploy(STACK, TEMPLATE)
    clients("logs").put_retention_policy(logGroupName="log", retentionInDays=7)
    changed = drift("-o", "json")
    assert changed.exit_code == 1
    assert json.loads(changed.stdout)["drift"] == [
        {"kind": "AWS::Logs::LogGroup", "name": f"{STACK}/Log", "detail": "/RetentionInDays is 7, deployed 30"}
    ]
    clients("logs").delete_log_group(logGroupName="log")
    deleted = drift()
    assert deleted.exit_code == 1
    assert "log is deleted" in deleted.stdout
    clients("logs").create_log_group(logGroupName="log")
    clients("logs").put_retention_policy(logGroupName="log", retentionInDays=30)
    mended = drift()
    assert mended.exit_code == 0
    assert "dev: no drift" in mended.stdout


def test_environment_with_slurm_is_compared(
    stacks: StackDeployer, clients: Clients, as_person: AsPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = config.load_any("slurm")
    operator = as_person(slurm, PersonRole.OPERATOR)
    monkeypatch.setattr(ops_clients, "CallerAccount", lambda _: Account(operator))
    stacks.deploy(naming.stack(slurm, "network"), TEMPLATE)
    same = CliRunner().invoke(app, ["drift", "--env", "slurm"])
    assert same.exit_code == 0, same.output
    assert "slurm: no drift in what was compared" in same.stdout
    clients("logs").put_retention_policy(logGroupName="log", retentionInDays=7)
    changed = CliRunner().invoke(app, ["drift", "--env", "slurm"])
    assert changed.exit_code == 1, changed.output
    assert "/RetentionInDays is 7, deployed 30" in " ".join(changed.stdout.split())


def test_policy_given_as_text_is_compared_by_its_content(
    stacks: StackDeployer, clients: Clients, drift: Callable[..., Result]
) -> None:
    """Roles of service accounts give their trust policy so: its keys hold the issuer, known only at the deployment."""
    allow = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = {"Version": "2012-10-17", "Statement": [allow]}
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": json.dumps(trust, indent=2)}}
    stacks.deploy(STACK, {"Resources": {"Role": role}}, Capabilities=["CAPABILITY_IAM"])
    same = drift()
    assert same.exit_code == 0, same.output
    widened = trust | {"Statement": [allow | {"Principal": {"AWS": "*"}}]}
    name = stacks.physical_id(STACK, "Role")
    clients("iam").update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(widened))
    changed = drift("-o", "json")
    assert changed.exit_code == 1
    [found] = json.loads(changed.stdout)["drift"]
    assert found["name"] == f"{STACK}/Role"
    assert found["detail"].startswith('/AssumeRolePolicyDocument is {"Version"')


def test_stack_that_cannot_be_compared_is_named(stacks: StackDeployer, drift: Callable[..., Result]) -> None:
    stacks.deploy(STACK, TEMPLATE)
    stacks.deploy(BROKEN, {"Resources": {"Bad": failing()}})
    result = drift()
    assert result.exit_code == 0, result.output
    assert f"not compared: stack {BROKEN} is ROLLBACK_COMPLETE" in result.stdout


def test_an_environment_of_which_nothing_can_be_compared_is_no_answer(
    stacks: StackDeployer, drift: Callable[..., Result]
) -> None:
    empty = drift("-o", "json")
    assert (empty.exit_code, empty.stdout) == (2, "")
    assert empty.stderr == "error: no stack of dev can be compared: none is deployed. Fix: deploy it\n"
    stacks.deploy(BROKEN, {"Resources": {"Bad": failing()}})
    broken = drift()
    assert broken.exit_code == 2
    assert f"no stack of dev can be compared: stack {BROKEN} is ROLLBACK_COMPLETE. Fix: " in broken.stderr


def test_refused_detection_is_no_access_and_not_no_drift(
    stacks: StackDeployer, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks.deploy(STACK, TEMPLATE)
    cloudformation = clients("cloudformation")

    def refuse(**_: Any) -> Any:
        denied = {"Error": {"Code": "AccessDenied", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
        raise ClientError(denied, "DetectStackDrift")  # type: ignore[arg-type]

    monkeypatch.setattr(cloudformation, "detect_stack_drift", refuse)
    monkeypatch.setattr(ops_clients, "CallerAccount", lambda _: Account(lambda _: cloudformation))
    result = CliRunner().invoke(app, ["drift", "--env", "dev"])
    assert result.exit_code == 2
    assert "AWS refuses DetectStackDrift" in result.stderr


def test_cluster_drifts_by_an_update_that_no_stack_made() -> None:
    with HyperPodBench() as bench:
        request = bench.request(Tags=[{"Key": "project", "Value": "rayhp"}])
        template = {"Resources": {"Cluster": {"Type": RESOURCE_TYPE, "Properties": request}}}
        sagemaker = bench.client("sagemaker")
        assert [each.detail for each in cluster_drifts(sagemaker, template)] == ["is deleted"]
        sagemaker.create_cluster(**request)
        bench.advance(3600)
        assert list(cluster_drifts(sagemaker, template)) == []
        [first, *others] = json.loads(json.dumps(request["InstanceGroups"]))
        first["InstanceCount"] += 1
        sagemaker.update_cluster(ClusterName=request["ClusterName"], InstanceGroups=[first, *others])
        [found] = cluster_drifts(sagemaker, template)
        count = first["InstanceCount"]
        where = f"InstanceGroups[{first['InstanceGroupName']}].InstanceCount"
        assert found.detail == f"{where} is {count}, deployed {count - 1}"
