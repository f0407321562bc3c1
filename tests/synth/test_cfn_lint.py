"""cfn-lint on every template of every environment."""

import pytest

from config import available, load_any
from tests.synth.support.cfn_lint import findings
from tests.synth.support.synthesis import Assemblies

# CDK states dependencies twice: W3005, "obsolete DependsOn".
IGNORED = ("W3005",)


@pytest.mark.sampled(14)
@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name in (*available(), "slurm") for part in load_any(name).stacks]
)
def test_template_is_valid_cloudformation(assembly: Assemblies, name: str, part: str) -> None:
    synthesised = assembly(name)
    template = synthesised.templates[part].body
    found = findings(template, region=synthesised.environment.region, ignored=IGNORED)
    assert [str(match) for match in found] == []


def test_lint_finds_a_wrong_property() -> None:
    template = {"Resources": {"A": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlok": "10.0.0.0/16"}}}}
    assert findings(template, region="us-west-2", ignored=IGNORED)
