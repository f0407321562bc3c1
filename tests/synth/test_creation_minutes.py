"""Each resource type that an environment creates has a row in the table of creation minutes, within its limits."""

import pytest

from config.estimates import creation
from tests.synth.support.synthesis import Assemblies


@pytest.mark.parametrize("name", ["dev", "prod", "slurm"])
def test_each_type_of_the_templates_has_creation_minutes(assembly: Assemblies, name: str) -> None:
    used = {
        resource["Type"]
        for template in assembly(name).templates.values()
        for resource in template.body["Resources"].values()
    }
    assert used - creation.by_type().keys() - {"AWS::CDK::Metadata"} == set()


@pytest.mark.parametrize("name", ["dev", "prod", "slurm"])
def test_custom_resources_end_within_cloudformation_s_limit(assembly: Assemblies, name: str) -> None:
    """CloudFormation waits one hour, or the ServiceTimeout; a rehearsal waits as long in real seconds."""
    for template in assembly(name).templates.values():
        for id, resource in template.body["Resources"].items():
            if resource["Type"].startswith("Custom::"):
                longest = max(creation.of_type(resource["Type"]).high, creation.of_deletion(resource["Type"]).high)
                assert 60 * longest <= float(resource["Properties"].get("ServiceTimeout", 3600)), id
