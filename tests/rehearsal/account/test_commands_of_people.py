"""Commands of people against parts of an account that a trial lacks: each role is refused nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config import SlurmEnvironment, naming
from config.facts import support
from config.load import DIRECTORY, DIRECTORY_VARIABLE
from embedded_account.context import Account
from embedded_account.machine import isolation
from embedded_account.paths import CDK_PRELOAD
from embedded_account.services.eks.host import ClusterHost
from embedded_account.testing.clients import Clients
from embedded_account.testing.eks_setup import set_up
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.stacks import StackDeployer
from ops.commands.whole import app
from ops.policy.role import PersonRole
from tests.rehearsal.account import small_cluster
from tests.support import assumed_role, people
from tests.support.waiting import wait_until

pytestmark = pytest.mark.product

SMALL = config.load("small")
SLURM = config.load_any("slurm")

Type = Callable[[PersonRole, str], Result]


@pytest.fixture
def typed(account: Account, clients: Clients, tmp_path: Path) -> Type:
    """Return a function that types a command as a person, who is refused nothing."""

    def run(role: PersonRole, words: str) -> Result:
        arn = people.make_role(clients, config.load_any(words.rpartition("--env ")[2].split()[0]), role)
        since = len(account.journal.entries())
        own = {DIRECTORY_VARIABLE: str(DIRECTORY), support.TODAY_VARIABLE: str(support.today())}
        env = isolation.child_environment(
            tmp_path,
            endpoint=account.endpoint,
            region=SMALL.region,
            account_id=SMALL.account,
            extra=assumed_role.credentials(clients, arn) | own | {"NODE_OPTIONS": f"--require={CDK_PRELOAD}"},
        )
        result = CliRunner(env=env).invoke(app, words.split())
        assert people.refusals(account, since) == []
        return result

    return run


@pytest.mark.parametrize("role", [PersonRole.OPERATOR, PersonRole.VIEWER])
def test_system_nodes_that_run_are_priced(
    account: Account,
    clients: Clients,
    stacks: StackDeployer,
    typed: Type,
    *,
    monkeypatch: pytest.MonkeyPatch,
    role: PersonRole,
) -> None:
    monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
    eks, name = set_up(account, clients), naming.eks_cluster(SMALL)
    eks.create(name=name)
    own = {"ClusterName": name, "NodeRole": eks.node_role_arn, "Subnets": eks.subnets, "InstanceTypes": ["m5.large"]}
    sizes = {"ScalingConfig": {"MinSize": 1, "DesiredSize": 2, "MaxSize": 3}}
    nodes = {"Type": "AWS::EKS::Nodegroup", "Properties": own | sizes}
    assert stacks.deploy(naming.stack(SMALL, "eks"), {"Resources": {"Nodes": nodes}}) == "CREATE_COMPLETE"
    priced = typed(role, "cost --live -o json --env small")
    assert priced.exit_code == 0, priced.output
    assert "2 x m5.large" in {item["amount"] for item in json.loads(priced.stdout)["live"]["items"]}
    stacks.delete(naming.stack(SMALL, "eks"))
    clients("eks").delete_cluster(name=name)


def test_a_scientist_reaches_the_nodes_of_a_slurm_cluster_by_ssh(clients: Clients, typed: Type) -> None:
    assert isinstance(SLURM, SlurmEnvironment)
    small_cluster.create_slurm(clients, SLURM)
    sagemaker, name = clients("sagemaker"), SLURM.hyperpod.cluster_name

    def running() -> list[dict[str, Any]]:
        nodes = sagemaker.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
        return [node for node in nodes if node["InstanceStatus"]["Status"] == "Running"]

    wait_until(running, "a node that runs")
    printed = typed(PersonRole.SCIENTIST, "ssh-config --env slurm")
    assert printed.exit_code == 0, printed.output
    assert f"HostKeyAlias {running()[0]['InstanceId']}" in printed.stdout
    sagemaker.delete_cluster(ClusterName=name)
    wait_until(lambda: sagemaker.list_clusters()["ClusterSummaries"] == [], "the cluster is deleted")


def test_a_deployer_reads_why_a_stack_could_not_be_destroyed(
    clients: Clients, stacks: StackDeployer, typed: Type
) -> None:
    for name in (*naming.BOOTSTRAP_ROLES, "cfn-exec"):
        make_bootstrap_role(clients, name)
    stack = naming.stack(SMALL, "storage")
    stacks.deploy(stack, {"Resources": {"Data": {"Type": "AWS::S3::Bucket"}}})
    bucket = stacks.physical_id(stack, "Data")
    clients("s3").put_object(Bucket=bucket, Key="results", Body=b"kept")
    destroyed = typed(PersonRole.DEPLOYER, "destroy --yes --env small")
    assert destroyed.exit_code == 3, destroyed.output
    assert f"{stack}: Data: " in destroyed.output
    assert "not empty" in destroyed.output


def make_bootstrap_role(clients: Clients, name: str) -> None:
    """Create a role in place of that of CDK's bootstrap: it is an administrator."""
    role = naming.bootstrap_role(SMALL, name).rpartition("/")[2]
    trust = {"Effect": "Allow", "Principal": {"AWS": SMALL.account}, "Action": "sts:AssumeRole"}
    own = {"Effect": "Allow", "Principal": {"Service": "cloudformation.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust, own]})
    clients("iam").create_role(RoleName=role, AssumeRolePolicyDocument=document)
    clients("iam").attach_role_policy(RoleName=role, PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
