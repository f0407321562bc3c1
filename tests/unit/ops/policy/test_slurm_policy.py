"""The policies for clusters of Slurm; tests/unit/ops/policy/test_policy.py checks the form of all policies."""

import json

import pytest
import typer
from typer.testing import CliRunner

import config
from config.load import EXAMPLES
from ops.commands.whole import app
from ops.policy.role import PersonRole
from ops.policy.roles import statements
from ops.policy.slurm import SLURM_COMMANDS, commands_of
from ops.policy.statement import Statement

SLURM = config.load_as(config.SlurmEnvironment, "slurm", EXAMPLES)


def of(role: PersonRole) -> dict[str, Statement]:
    return {each.sid: each for each in statements(role, SLURM)}


def allowed(role: PersonRole) -> set[str]:
    return {action for each in of(role).values() for action in each.actions if not each.denies}


@pytest.mark.parametrize("role", PersonRole)
def test_no_role_has_rights_on_kubernetes(role: PersonRole) -> None:
    # `ops preflight` lists the account's clusters.
    assert {action for action in allowed(role) if action.startswith("eks:")} <= {"eks:ListClusters"}


@pytest.mark.parametrize("role", [PersonRole.OPERATOR, PersonRole.SCIENTIST, PersonRole.VIEWER])
def test_no_role_beside_those_that_prepare_the_account_has_rights_on_images(role: PersonRole) -> None:
    assert not [action for action in allowed(role) if action.startswith("ecr:")]


@pytest.mark.parametrize("role", [PersonRole.SCIENTIST, PersonRole.VIEWER, PersonRole.DEPLOYER])
def test_only_operators_and_administrators_change_the_cluster(role: PersonRole) -> None:
    changing = ("sagemaker:Update", "sagemaker:Batch", "sagemaker:Create", "sagemaker:Delete", "iam:Pass", "iam:Create")
    assert not [action for action in allowed(role) if action.startswith(changing)]


def test_operator_changes_this_environments_cluster_and_passes_its_role_to_sagemaker_only() -> None:
    found = of(PersonRole.OPERATOR)
    own = {"aws:ResourceTag/project": "slurmhp", "aws:ResourceTag/environment": "slurm"}
    assert found["ChangeHyperPodCluster"].conditions == {"StringEquals": own}
    assert "sagemaker:UpdateCluster" in found["ChangeHyperPodCluster"].actions
    passed = found["ChangeHyperPodRoles"]
    assert passed.resources == ("arn:aws:iam::111122223333:role/slurmhp-slurm-hyperpod-ExecutionRole*",)
    assert passed.conditions == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}


def test_person_who_deploys_creates_clusters_through_the_bootstraps_roles_only() -> None:
    assert "sts:AssumeRole" in allowed(PersonRole.DEPLOYER)
    assert not any("CreateCluster" in action for role in PersonRole for action in allowed(role))


def test_scientist_describes_the_cluster_and_starts_sessions_of_ssh_only() -> None:
    found = of(PersonRole.SCIENTIST)
    assert {"sagemaker:DescribeCluster", "sagemaker:ListClusterNodes", "ssm:StartSession"} <= allowed(
        PersonRole.SCIENTIST
    )
    assert found["ConnectBySsh"].conditions == {"Bool": {"ssm:SessionDocumentAccessCheck": "true"}}
    denied = found["NoShellsOfRoot"]
    assert denied.denies
    names = {resource.rpartition("/")[2] for resource in denied.resources}
    assert {"SSM-SessionManagerRunShell", "AWS-StartNonInteractiveCommand"} <= names
    assert "AWS-StartSSHSession" not in names
    assert found["OnlyOnHyperPod"].denies


@pytest.mark.parametrize("role", [PersonRole.SCIENTIST, PersonRole.OPERATOR])
def test_person_ends_only_own_sessions(role: PersonRole) -> None:
    [own] = of(role)["OwnSessions"].resources
    assert own == "arn:aws:ssm:us-west-2:111122223333:session/${aws:userid}-*"


def test_viewer_starts_no_session() -> None:
    assert "ssm:StartSession" not in allowed(PersonRole.VIEWER)


def test_command_names_what_the_role_can_run_there() -> None:
    done = CliRunner().invoke(app, ["policy", "scientist", "--env", "slurm", "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["access"], found["commands"]) == ("", ["ssh-config"])
    done = CliRunner().invoke(app, ["policy", "operator", "--env", "slurm"])
    assert "Kubernetes" not in done.stdout
    assert "ops node replace" in done.stdout


def test_commands_of_slurm_are_commands_of_ops() -> None:
    known = typer.main.get_command(app)
    for words in SLURM_COMMANDS:
        found = known
        for word in words.split():
            found = found.commands[word]  # type: ignore[attr-defined]
    assert commands_of(PersonRole.ADMIN) == list(SLURM_COMMANDS)
