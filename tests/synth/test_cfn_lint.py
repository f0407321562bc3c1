"""cfn-lint on every template of every environment."""

import json

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from config import available
from tests.synth.conftest import Assemblies
from tests.synth.synthesis import PARTS

# CDK says dependencies twice: W3005, "obsolete DependsOn".
IGNORED = ["W3005"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", available())
def test_template_is_valid_cloudformation(assembly: Assemblies, name: str, part: str) -> None:
    synthesised = assembly(name)
    template = json.dumps(synthesised.templates[part].body)
    regions = [synthesised.environment.region]
    found = lint(template, config=ManualArgs(regions=regions, ignore_checks=IGNORED))
    assert [str(match) for match in found] == []


def test_lint_finds_a_wrong_property() -> None:
    template = {"Resources": {"A": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlok": "10.0.0.0/16"}}}}
    assert lint(json.dumps(template), config=ManualArgs(regions=["us-west-2"], ignore_checks=IGNORED))
