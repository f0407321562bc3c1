"""Each resource type that an environment creates has a row in the table of creation minutes."""

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
