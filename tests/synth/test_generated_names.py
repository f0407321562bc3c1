"""The policies of people know how the logical ids begin of what the stacks leave unnamed, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import config
from config import EksEnvironment
from config.model.eks import AddOn, AddOnRole
from ops.policy.generated import KUBECTL_BARRIER, LOGICAL_IDS, Kind
from tests.synth.support import variants
from tests.synth.support.synthesis import Assemblies, Assembly, synthesise

KINDS: Final[dict[str, tuple[Kind, str]]] = {
    "AWS::Budgets::Budget": ("budgets", "Budget.BudgetName"),
    "AWS::CloudWatch::Alarm": ("alarms", "AlarmName"),
    "AWS::Events::Rule": ("rules", "Name"),
    "AWS::IAM::Role": ("roles", "RoleName"),
    "AWS::Lambda::Function": ("functions", "FunctionName"),
    "AWS::Logs::LogGroup": ("log groups", "LogGroupName"),
    "AWS::SNS::Topic": ("topics", "TopicName"),
}
SHARED: Final = ("dev", "slurm", variants.WATCHED, variants.OBSERVED, variants.BUDGETED, variants.SLEEPING)


def _all_of_it() -> EksEnvironment:
    """Return an environment with what the others lack: dynamic file systems, MLflow, an add-on with a role."""
    own = config.load("dev")
    fsx = own.fsx.model_copy(update={"provisioning": "dynamic"})
    role = AddOnRole(policies=("arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy",))
    add_ons = (*own.eks.add_ons, AddOn(name="amazon-cloudwatch-observability", role=role))
    eks = own.eks.model_copy(update={"add_ons": add_ons})
    return own.model_copy(update={"eks": eks, "fsx": fsx, "mlflow": "managed"})


def _unnamed(assembly: Assembly) -> Iterator[tuple[Kind, str, str]]:
    """Yield kind, stack and logical id of each resource that CloudFormation names."""
    for part, template in assembly.templates.items():
        for logical_id, resource in template.body["Resources"].items():
            kind, key = KINDS.get(resource["Type"], (None, ""))
            given = resource.get("Properties", {})
            for word in key.split("."):
                given = given.get(word) or {}
            if kind and not given:
                yield kind, part, logical_id


@pytest.fixture(scope="module")
def unnamed(assembly: Assemblies, tmp_path_factory: pytest.TempPathFactory) -> set[tuple[Kind, str, str]]:
    found = {each for name in SHARED for each in _unnamed(assembly(name))}
    return found | set(_unnamed(synthesise(_all_of_it(), Path(tmp_path_factory.mktemp("all")))))


def test_each_unnamed_resource_is_known(unnamed: set[tuple[Kind, str, str]]) -> None:
    missing = {
        (kind, part, logical_id)
        for kind, part, logical_id in unnamed
        if not logical_id.startswith(tuple(LOGICAL_IDS[kind].get(part, "-").split()))
    }
    assert not missing


def test_nothing_is_known_that_no_template_has(unnamed: set[tuple[Kind, str, str]]) -> None:
    known = {
        (kind, part, begin)
        for kind, parts in LOGICAL_IDS.items()
        for part, begins in parts.items()
        for begin in begins.split()
    }
    used = {each for each in known if any(_begins(found, each) for found in unnamed)}
    assert known == used


def _begins(found: tuple[Kind, str, str], known: tuple[Kind, str, str]) -> bool:
    return found[:2] == known[:2] and found[2].startswith(known[2])


def test_the_only_unnamed_parameter_is_known(assembly: Assemblies) -> None:
    for name in SHARED:
        found = {part: template.all("AWS::SSM::Parameter") for part, template in assembly(name).templates.items()}
        unnamed = [id for each in found.values() for id, it in each.items() if "Name" not in it["Properties"]]
        assert all(id.startswith(KUBECTL_BARRIER) for id in unnamed)
        assert bool(unnamed) == ("eks" in found)


def test_each_begin_has_a_capital_letter() -> None:
    """No name of an environment has one: this is what keeps its policies from the names of others."""
    begins = [each for parts in LOGICAL_IDS.values() for words in parts.values() for each in words.split()]
    assert all(each[0].isupper() for each in begins)
