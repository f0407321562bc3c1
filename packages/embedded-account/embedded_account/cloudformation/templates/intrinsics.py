"""Evaluate CloudFormation's intrinsic functions, and find what they refer to."""

import base64
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.templates.template import Template

NOT_YET_KNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"
"""CloudFormation's placeholder in change sets for a value that is known only after the deployment."""

PSEUDO_PARAMETERS = frozenset(
    f"AWS::{name}"
    for name in (
        "AccountId", "NoValue", "NotificationARNs", "Partition", "Region", "StackId", "StackName", "URLSuffix",
    )
)  # fmt: skip

_CONDITION_FUNCTIONS = {"Fn::And", "Fn::Or", "Fn::Not", "Fn::Equals"}
_IN_SUB = re.compile(r"\$\{([^!}][^}]*)\}")
_LITERAL_IN_SUB = re.compile(r"\$\{!([^}]*)\}")
_DYNAMIC_REFERENCE = re.compile(r"\{\{resolve:[^}]+\}\}")


class _NoValue:
    """The value of Ref AWS::NoValue, which removes the property or list item."""


NO_VALUE = _NoValue()


class Reference(NamedTuple):
    """One reference to another part of the template; `attribute` is None for a Ref."""

    name: str
    attribute: str | None


class TemplateLookups(Protocol):
    """What the functions need to know from outside the template."""

    def ref(self, logical_id: str) -> Any:
        """Return the physical id of a resource."""

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return an attribute of a resource."""

    def imported(self, export_name: str) -> str:
        """Return the value of another stack's export."""

    def availability_zones(self, region: str) -> list[str]:
        """Return the zones of a region."""

    def dynamic(self, reference: str) -> str:
        """Return the value of a dynamic reference, `{{resolve:service:...}}`."""


def function_of(value: Any) -> str | None:
    """Return the name of the intrinsic function that `value` calls, or None."""
    if isinstance(value, dict) and len(value) == 1:
        (name,) = value
        if name == "Ref" or name.startswith("Fn::"):
            return str(name)
    return None


def references(value: Any, branch: Callable[[Any], Any]) -> Iterator[Reference]:
    """Yield the references in `value`; of Fn::If those in what `branch` returns for its arguments."""
    name = function_of(value)
    if name == "Ref":
        yield Reference(value["Ref"], None)
    elif name == "Fn::GetAtt":
        yield _attribute_reference(value["Fn::GetAtt"])
    elif name == "Fn::If":
        yield from references(branch(value["Fn::If"]), branch)
    elif name == "Fn::Sub":
        text, variables = _sub_arguments(value["Fn::Sub"])
        yield from references(variables, branch)
        yield from (_variable_reference(each) for each in _IN_SUB.findall(text) if each not in variables)
    elif isinstance(value, dict):
        for item in value.values():
            yield from references(item, branch)
    elif isinstance(value, list):
        for item in value:
            yield from references(item, branch)


class Intrinsics:
    """Evaluates one template with one set of parameters.

    `values` are the template's parameters and the pseudo parameters. Raises RefusedCallError (ValidationError) with
    CloudFormation's text if a template refers to something missing.
    """

    def __init__(self, template: Template, values: Mapping[str, Any], surroundings: TemplateLookups) -> None:
        self._template = template
        self._values = values
        self._surroundings = surroundings
        self._conditions: dict[str, bool] = {}
        self._functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._ref,
            "Fn::Base64": lambda v: base64.b64encode(self._text(v).encode()).decode(),
            "Fn::Cidr": self._cidr,
            "Fn::FindInMap": self._find_in_map,
            "Fn::GetAtt": self._get_att,
            "Fn::GetAZs": lambda v: self._surroundings.availability_zones(self._text(v) or values["AWS::Region"]),
            "Fn::If": lambda v: self.resolve(self._branch(v)),
            "Fn::ImportValue": lambda v: self._surroundings.imported(self._text(v)),
            "Fn::Join": self._join,
            "Fn::Length": lambda v: len(self.resolve(v)),
            "Fn::Select": self._select,
            "Fn::Split": self._split,
            "Fn::Sub": self._sub,
            "Fn::ToJsonString": lambda v: json.dumps(self.resolve(v)),
        }

    def resolve(self, value: Any) -> Any:
        """Return `value` with the result of every function in its place."""
        name = function_of(value)
        if name:
            if name in _CONDITION_FUNCTIONS:
                return self._evaluate(value)
            if name not in self._functions:
                raise invalid(f"Template error: unsupported intrinsic function {name}")
            try:
                return self._functions[name](value[name])
            except (TypeError, IndexError, KeyError, ValueError) as error:
                raise invalid(f"Template error: {name} does not have the arguments it needs: {value}") from error
        if isinstance(value, dict):
            resolved = {key: self.resolve(item) for key, item in value.items()}
            return {key: item for key, item in resolved.items() if item is not NO_VALUE}
        if isinstance(value, list):
            return [item for item in (self.resolve(item) for item in value) if item is not NO_VALUE]
        if isinstance(value, str) and "{{resolve:" in value:
            return _DYNAMIC_REFERENCE.sub(lambda match: self._surroundings.dynamic(match[0]), value)
        return value

    def condition(self, name: str) -> bool:
        """Return whether the template's condition `name` holds."""
        if name not in self._conditions:
            conditions = self._template.get("Conditions", {})
            if name not in conditions:
                raise invalid(f"Template format error: Unresolved condition {name}")
            self._conditions[name] = self._evaluate(conditions[name])
        return self._conditions[name]

    def holds(self, condition: Any) -> bool:
        """Return whether a condition expression (of Conditions or Rules) holds."""
        return self._evaluate(condition)

    def applies(self, item: Mapping[str, Any]) -> bool:
        """Return whether the Condition of a resource or output holds, so that it is part of the stack."""
        return "Condition" not in item or self.condition(item["Condition"])

    def resource_references(self, value: Any) -> list[Reference]:
        """Return the references in `value` to resources, not to parameters."""
        values = {*self._values, *PSEUDO_PARAMETERS}
        return [reference for reference in self.references(value) if reference.name not in values]

    def references(self, value: Any) -> Iterator[Reference]:
        """Yield the references in `value`; of Fn::If only those in the branch that is taken."""
        return references(value, self._branch)

    def _text(self, value: Any) -> str:
        resolved = self.resolve(value)
        if isinstance(resolved, dict | list) or resolved is NO_VALUE:
            raise invalid(f"Template error: a text is expected instead of {json.dumps(value)}")
        return as_text(resolved)

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self._values:
            return self._values[name]
        return self._surroundings.ref(name)

    def _get_att(self, argument: Any) -> Any:
        reference = _attribute_reference(argument)
        return self._surroundings.attribute(reference.name, self._text(reference.attribute))

    def _branch(self, argument: Any) -> Any:
        if not (isinstance(argument, list) and len(argument) == 3):
            raise invalid("Template error: Fn::If requires a list argument with three elements")
        condition, yes, no = argument
        return yes if self.condition(condition) else no

    def _find_in_map(self, argument: list[Any]) -> Any:
        keys = [self._text(key) for key in argument[:3]]
        found: Any = self._template.get("Mappings", {})
        for key in keys:
            if not isinstance(found, dict) or key not in found:
                if len(argument) > 3:
                    return self.resolve(argument[3]["DefaultValue"])
                raise invalid(f"Template error: Unable to get mapping for {'::'.join(keys)}")
            found = found[key]
        return found

    def _join(self, argument: list[Any]) -> str:
        delimiter, items = argument[0], self.resolve(argument[1])
        if items == NOT_YET_KNOWN:
            return NOT_YET_KNOWN
        if not isinstance(items, list) or any(isinstance(item, dict | list) for item in items):
            raise invalid("Template error: every Fn::Join object requires two parameters, (1) a string delimiter "
                          "and (2) a list of strings to be joined")  # fmt: skip
        return str(delimiter).join(as_text(item) for item in items)

    def _split(self, argument: list[Any]) -> list[str]:
        text = self._text(argument[1])
        return [NOT_YET_KNOWN] if NOT_YET_KNOWN in text else text.split(argument[0])

    def _select(self, argument: list[Any]) -> Any:
        index, items = int(self._text(argument[0])), self.resolve(argument[1])
        if items in (NOT_YET_KNOWN, [NOT_YET_KNOWN]):
            return NOT_YET_KNOWN
        if not isinstance(items, list) or not 0 <= index < len(items):
            raise invalid(f"Template error: Fn::Select cannot select nonexistent value at index {index}")
        return items[index]

    def _sub(self, argument: Any) -> str:
        text, variables = _sub_arguments(argument)

        def value_of(match: re.Match[str]) -> str:
            variable = match[1].strip()
            if variable in variables:
                return self._text(variables[variable])
            reference = _variable_reference(variable)
            if reference.attribute is None:
                return self._text({"Ref": reference.name})
            return self._text({"Fn::GetAtt": [reference.name, reference.attribute]})

        return _LITERAL_IN_SUB.sub(r"${\1}", _IN_SUB.sub(value_of, text))

    def _cidr(self, argument: list[Any]) -> Any:
        block, count = self._text(argument[0]), int(self._text(argument[1]))
        if NOT_YET_KNOWN in block:
            return [NOT_YET_KNOWN]
        host_bits = int(self._text(argument[2])) if len(argument) > 2 else 8
        network = ipaddress.ip_network(block)
        subnets = network.subnets(new_prefix=network.max_prefixlen - host_bits)
        return [str(subnet) for subnet, _ in zip(subnets, range(count), strict=False)]

    def _evaluate(self, condition: Any) -> bool:
        ((name, argument),) = condition.items()
        if name == "Condition":
            return self.condition(argument)
        if name == "Fn::Not":
            return not self._evaluate(argument[0])
        if name in {"Fn::And", "Fn::Or"}:
            return (all if name == "Fn::And" else any)(self._evaluate(item) for item in argument)
        if name == "Fn::Equals":
            left, right = (self.resolve(item) for item in argument)
            return bool(_comparable(left) == _comparable(right))
        if name in {"Fn::Contains", "Fn::EachMemberIn"}:
            members = self.resolve(argument[0])
            wanted = self.resolve(argument[1])
            if name == "Fn::Contains":
                return wanted in members
            return set(members) <= set(wanted)
        raise invalid(f"Template error: unsupported function {name} in a condition")


def _comparable(value: Any) -> Any:
    return value if isinstance(value, dict | list) else as_text(value)


def as_text(value: Any) -> str:
    """Return a scalar as CloudFormation writes it: true and false in lower case."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _attribute_reference(argument: Any) -> Reference:
    parts = argument.split(".", 1) if isinstance(argument, str) else argument
    if not (isinstance(parts, list) and len(parts) == 2):
        raise invalid("Template error: every Fn::GetAtt object requires two non-empty parameters, the resource "
                      "name and the resource attribute")  # fmt: skip
    return Reference(parts[0], parts[1])


def _variable_reference(variable: str) -> Reference:
    name, _, attribute = variable.strip().partition(".")
    return Reference(name, attribute or None)


def _sub_arguments(argument: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(argument, str):
        return argument, {}
    if isinstance(argument, list) and len(argument) == 2 and isinstance(argument[0], str):
        return argument[0], argument[1]
    raise invalid("Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. "
                  "Specify a string as first argument, and an optional second argument to specify a mapping of "
                  "values to replace in the string")  # fmt: skip
