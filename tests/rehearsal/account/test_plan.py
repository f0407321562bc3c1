"""`ops plan` against the account: its digest changes with what is deployed and with what would be."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config import naming
from embedded_account.testing.stacks import StackDeployer, Template, repository, topic
from ops import clients as ops_clients
from ops.commands.whole import app
from ops.policy.role import PersonRole
from ops.policy.roles import COMMANDS
from ops.policy.slurm import SLURM_COMMANDS
from ops.stacks import DESTROY_ORDER
from tests.rehearsal.conftest import AsPerson

pytestmark = pytest.mark.product

DEV = config.load("dev")
STACK = naming.stack(DEV, "eks")


@dataclass
class Account:
    client: Any


def of(**resources: Any) -> Template:
    return {"Resources": resources}


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    for part in DESTROY_ORDER:
        (tmp_path / f"{naming.stack(DEV, part)}.template.json").write_text(json.dumps(of(T=topic())))
    return tmp_path


@pytest.fixture(params=COMMANDS["plan"])
def plan(
    request: pytest.FixtureRequest, as_person: AsPerson, assembly: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return the command `ops plan --env dev --app …` with more arguments, as each person whom it is for."""
    person = as_person(DEV, request.param)
    monkeypatch.setattr(ops_clients, "CallerAccount", lambda _: Account(person))
    return lambda *arguments: CliRunner().invoke(app, ["plan", "--env", "dev", "--app", str(assembly), *arguments])


def test_plan_names_what_is_added_changed_and_removed(
    stacks: StackDeployer, plan: Callable[..., Result], assembly: Path
) -> None:
    stacks.deploy(STACK, of(Same=topic(), Changed=topic(), Removed=repository()))
    new = of(Same=topic(), Changed=topic(DisplayName="new"), Added=repository())
    (assembly / f"{STACK}.template.json").write_text(json.dumps(new))
    document = json.loads(plan("-o", "json").stdout)
    [eks] = [each for each in document["stacks"] if each["stack"] == STACK]
    assert eks["exists"] is True
    assert [(each["change"], each["logical_id"]) for each in eks["changes"]] == [
        ("add", "Added"),
        ("change", "Changed"),
        ("remove", "Removed"),
    ]
    assert not any(each["exists"] for each in document["stacks"] if each is not eks)


def test_approved_plan_is_refused_once_either_side_has_changed(
    stacks: StackDeployer, plan: Callable[..., Result], assembly: Path
) -> None:
    approved = json.loads(plan("-o", "json").stdout)["digest"]
    assert plan("--expect", approved).exit_code == 0
    stacks.deploy(STACK, of(T=topic()))
    behind = plan("--expect", approved)
    assert behind.exit_code == 1, "somebody deployed between the review and the deployment"
    assert "has changed since the review" in behind.stderr
    again = json.loads(plan("-o", "json").stdout)["digest"]
    (assembly / f"{STACK}.template.json").write_text(json.dumps(of(T=topic(DisplayName="other"))))
    assert plan("--expect", again).exit_code == 1, "another source is deployed than was reviewed"


def test_incomplete_assembly_is_bad_input(plan: Callable[..., Result], assembly: Path) -> None:
    (assembly / f"{STACK}.template.json").unlink()
    result = plan()
    assert result.exit_code == 2
    assert "Fix: run `cdk synth`" in result.stderr


@pytest.mark.parametrize("role", SLURM_COMMANDS["plan"])
def test_environment_with_slurm_has_a_plan_of_its_own_stacks(
    role: PersonRole, stacks: StackDeployer, as_person: AsPerson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = config.load_any("slurm")
    names = [naming.stack(slurm, part) for part in slurm.stacks]
    for name in names:
        (tmp_path / f"{name}.template.json").write_text(json.dumps(of(T=topic())))
    stacks.deploy(names[0], of(T=repository()))
    person = as_person(slurm, role)
    monkeypatch.setattr(ops_clients, "CallerAccount", lambda _: Account(person))
    result = CliRunner().invoke(app, ["plan", "--env", "slurm", "--app", str(tmp_path), "-o", "json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(each["stack"], each["exists"]) for each in document["stacks"]] == [
        (name, name == names[0]) for name in names
    ]
    assert [each["change"] for each in document["stacks"][0]["changes"]] == ["change"]
