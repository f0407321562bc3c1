"""The embedded account takes each property of the product, and has a case: it carries out the update, or refuses it."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import pytest

from config import available
from embedded_account.cloudformation.custom_resources import is_custom
from embedded_account.cloudformation.templates.resource_types import METADATA_TYPE, Property, resource_types
from embedded_account.services import SERVICES
from embedded_account.services.shared.resource_model import REGISTERED
from embedded_account.testing.updates import CASES
from rehearsal.paths import NODE_MODULES
from tests.synth.support.every_key import DOCUMENTS, environment_of, read
from tests.synth.support.synthesis import Assemblies, Template, synthesise

Templates = Mapping[str, Template]


@pytest.fixture(scope="session", params=[*available(), *(f"every key of {name}" for name in DOCUMENTS)])
def templates(
    request: pytest.FixtureRequest, assembly: Assemblies, tmp_path_factory: pytest.TempPathFactory
) -> Templates:
    name = request.param.removeprefix("every key of ")
    if name == request.param:
        return assembly(name).templates
    directory = tmp_path_factory.mktemp(name)
    return synthesise(environment_of(read(name), directory), directory).templates


def updatable(properties: Mapping[str, Any], known: Mapping[str, Property], above: str = "") -> Iterator[str]:
    """Yield the paths of properties, including nested ones, whose change does not replace the resource."""
    types = resource_types(NODE_MODULES)
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


def test_every_property_of_every_template_has_a_case(templates: Templates) -> None:
    untried = set()
    for kind, properties in provided_by_aws(templates):
        known = resource_types(NODE_MODULES).get(kind)
        assert known, kind
        untried |= {(kind, path) for path in updatable(properties, known.properties) if not covered(path, tried(kind))}
    assert untried == set()


def test_every_property_of_every_template_can_be_created(templates: Templates) -> None:
    for module in ("hyperpod", "lambdas.models", *(f"services.{name}" for name in SERVICES)):
        import_module(f"embedded_account.{module}")
    refused = {
        (kind, name)
        for kind, properties in provided_by_aws(templates)
        for name in properties
        if kind not in REGISTERED or name not in REGISTERED[kind].KNOWN
    }
    assert refused == set()


def provided_by_aws(templates: Templates) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the type and the properties of each resource that no custom resource makes."""
    for template in templates.values():
        for resource in template.body["Resources"].values():
            if not is_custom(resource["Type"]) and resource["Type"] != METADATA_TYPE:
                yield resource["Type"], resource.get("Properties", {})


def covered(path: str, paths: set[str]) -> bool:
    """Return whether a case covers the path, or a parent that is replaced as a whole."""
    return any(path == each or path.startswith(f"{each}.") for each in paths)
