"""The table of add-ons: what a row says, and that its schemas are JSON schemas."""

import pytest
from jsonschema import Draft6Validator  # type: ignore[import-untyped]  # publishes no types
from ruamel.yaml import YAML

from config.facts.add_ons import ADD_ONS_FILE, known_add_ons
from config.facts.tables import read_table
from config.rules.eks import _TAKEN_NAMESPACES

pytestmark = pytest.mark.table("config/facts/add_ons.yaml")


def test_the_table_is_yaml_and_json_alike() -> None:
    assert YAML(typ="safe").load(ADD_ONS_FILE) == read_table(ADD_ONS_FILE)


@pytest.mark.parametrize("name", known_add_ons())
def test_a_row_names_its_source_and_a_namespace_that_no_raycluster_may_use(name: str) -> None:
    row = known_add_ons()[name]
    assert row.source
    assert row.namespace in _TAKEN_NAMESPACES


def test_a_schema_is_a_valid_one_of_a_version_with_a_source() -> None:
    with_schema = {name: row for name, row in known_add_ons().items() if row.schema}
    assert set(with_schema) == {"vpc-cni", "coredns"}
    for row in with_schema.values():
        Draft6Validator.check_schema(row.schema)
        assert row.schema_of
        assert row.schema_source
