"""cfn-lint on every template of every environment."""

import json

import pytest
from cfnlint.api import lint
from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.rules import RulesCollection
from cfnlint.runner import Runner

from config import available, load
from config.naming import parts_of
from tests.synth.support.synthesis import Assemblies

# CDK states dependencies twice: W3005, "obsolete DependsOn".
IGNORED = ["W3005"]


@pytest.fixture(scope="module")
def rules() -> RulesCollection:
    """Load cfn-lint's rules once: that takes as long as checking a template."""
    loaded: RulesCollection = Runner(ConfigMixIn(ignore_checks=IGNORED)).rules
    return loaded


@pytest.mark.sampled(14)
@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name in (*available(), "slurm") for part in parts_of(load(name))]
)
def test_template_is_valid_cloudformation(assembly: Assemblies, rules: RulesCollection, name: str, part: str) -> None:
    synthesised = assembly(name)
    template = json.dumps(synthesised.templates[part].body)
    regions = [synthesised.environment.region]
    found = lint(template, rules, config=ManualArgs(regions=regions, ignore_checks=IGNORED))
    assert [str(match) for match in found] == []


def test_lint_finds_a_wrong_property(rules: RulesCollection) -> None:
    template = {"Resources": {"A": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlok": "10.0.0.0/16"}}}}
    assert lint(json.dumps(template), rules, config=ManualArgs(regions=["us-west-2"], ignore_checks=IGNORED))
