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


def synthesised(folder: Path, names: list[str]) -> Path:
    """Write an assembly of stacks with one topic each."""
    artifacts = {}
    for name in names:
        (folder / f"{name}.template.json").write_text(json.dumps(of(T=topic())))
        properties = {"templateFile": f"{name}.template.json", "stackName": name, "terminationProtection": True}
        artifacts[name] = {"type": "aws:cloudformation:stack", "environment": "aws://a/r", "properties": properties}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return folder


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    return synthesised(tmp_path, [naming.stack(DEV, part) for part in DESTROY_ORDER])


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


def test_plan_says_what_it_does_to_what_is_deployed_as_a_review_does(
    stacks: StackDeployer, plan: Callable[..., Result], assembly: Path
) -> None:
    stacks.deploy(STACK, of(T=topic(), Images=repository()))
    found = json.loads(plan("-o", "json").stdout)["effects"]
    [lost] = [each for each in found if each["title"] == "image repository Images"]
    assert (lost["stack"], lost["effect"], lost["dangers"]) == ("eks", "data lost", ["data-loss"])
    [protection] = [each for each in found if each["what"].startswith("terminationProtection")]
    assert (protection["what"], protection["effect"]) == ("terminationProtection false → true", "in place")
    text = plan().stdout
    assert "Data: lost: image repository Images (dev)." in text
    assert text.splitlines()[-1].startswith("digest: ")


def test_new_environment_loses_nothing(plan: Callable[..., Result]) -> None:
    assert {each["effect"] for each in json.loads(plan("-o", "json").stdout)["effects"]} == {"created"}


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
    synthesised(tmp_path, names)
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
