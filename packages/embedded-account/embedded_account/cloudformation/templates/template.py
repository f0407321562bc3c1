"""Parse CloudFormation templates: JSON, or YAML with the short forms of the intrinsic functions."""

import json
from typing import Any

import yaml

from embedded_account.cloudformation.faults import invalid

Template = dict[str, Any]

MAX_TEMPLATE_BYTES = 1_048_576
"""The largest template in S3 (CloudFormation's quotas); the CDK CLI uploads those bigger than 51,200 bytes."""

_SECTIONS = {
    "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Mappings", "Conditions",
    "Transform", "Hooks", "Resources", "Outputs",
}  # fmt: skip

_MOST = {"Resources": 500, "Outputs": 200, "Parameters": 200, "Mappings": 200}
_DESCRIPTION_BYTES = 1024

SUPPORTED_TRANSFORMS = {"AWS::LanguageExtensions"}


class _Loader(yaml.CSafeLoader):
    """A YAML loader without dates: CloudFormation reads 2012-10-17 as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _short_form(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]  # the third kind of node
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_form)


def parse(body: str) -> Template:
    """Return the parsed template.

    Raises RefusedCallError (ValidationError) if the body is too big, is neither JSON nor YAML, or is not a template.
    """
    if len(body.encode()) > MAX_TEMPLATE_BYTES:
        raise invalid(f"Template may not exceed {MAX_TEMPLATE_BYTES} bytes in size.")
    template = _load(body)
    if not isinstance(template, dict):
        raise invalid("Template format error: unsupported structure.")
    unknown = sorted(str(name) for name in template if name not in _SECTIONS)
    if unknown:
        raise invalid(f"Invalid template property or properties [{', '.join(unknown)}]")
    if not template.get("Resources"):
        raise invalid("Template format error: At least one Resources member must be defined.")
    for section in _SECTIONS & template.keys() - {"AWSTemplateFormatVersion", "Description", "Transform"}:
        if not isinstance(template[section], dict):
            raise invalid(f"Template format error: {section} section must be an object.")
    _check_limits(template)
    _check_transforms(template)
    return template


def _check_limits(template: Template) -> None:
    for section, most in _MOST.items():
        if (number := len(template.get(section, ()))) > most:
            raise invalid(
                f"Template format error: Number of {section.lower()}, {number}, is greater than maximum allowed, {most}"
            )
    if len(str(template.get("Description", "")).encode()) > _DESCRIPTION_BYTES:
        raise invalid(f"Template format error: 'Description' length is greater than {_DESCRIPTION_BYTES}.")


def _load(body: str) -> Any:
    if body.lstrip().startswith("{"):
        try:
            return json.loads(body)
        except json.JSONDecodeError:
            pass  # a YAML flow mapping also begins with a brace
    try:
        return yaml.load(body, Loader=_Loader)  # noqa: S506 - derived from the safe loader
    except yaml.YAMLError as error:
        raise invalid(f"Template format error: YAML not well-formed. {error}") from error


def _check_transforms(template: Template) -> None:
    transforms = template.get("Transform", [])
    for transform in [transforms] if isinstance(transforms, str) else transforms:
        if transform not in SUPPORTED_TRANSFORMS:
            raise invalid(f"The embedded account does not support the transform {transform}")
