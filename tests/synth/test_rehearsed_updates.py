"""The embedded account has a case for each property of the product: it carries out the update, or refuses it."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from config import available
from embedded_account.cloudformation.custom_resources import is_custom
from embedded_account.cloudformation.templates.resource_types import METADATA_TYPE, Property, resource_types
from tests.rehearsal.account.updates import CASES
from tests.synth.support.synthesis import Assemblies


def updatable(properties: Mapping[str, Any], known: Mapping[str, Property], above: str = "") -> Iterator[str]:
    """Yield the paths of properties, including nested ones, whose change does not replace the resource."""
    types = resource_types()
    for name, value in properties.items():
        declared, path = known[name], f"{above}{name}"
        if declared.replacement == "yes":
            continue
        if declared.type["type"] == "ref" and isinstance(value, dict) and not is_intrinsic(value):
            yield from updatable(value, types.definition(declared.type["reference"]["$ref"]), f"{path}.")
        else:
            yield path


def is_intrinsic(value: dict[str, Any]) -> bool:
    return any(key == "Ref" or key.startswith("Fn::") for key in value)


def tried(kind: str) -> set[str]:
    return {path for key, case in CASES.items() if key.split()[0] == kind for path in case.tried()}


@pytest.mark.parametrize("name", available())
def test_every_property_of_every_template_has_a_case(assembly: Assemblies, name: str) -> None:
    untried = set()
    for template in assembly(name).templates.values():
        for resource in template.body["Resources"].values():
            kind = resource["Type"]
            if is_custom(kind) or kind == METADATA_TYPE:
                continue
            known = resource_types().get(kind)
            assert known, kind
            paths = updatable(resource.get("Properties", {}), known.properties)
            untried |= {(kind, path) for path in paths if not covered(path, tried(kind))}
    assert untried == set()


def covered(path: str, paths: set[str]) -> bool:
    """Return whether a case covers the path, or a parent that is replaced as a whole."""
    return any(path == each or path.startswith(f"{each}.") for each in paths)
