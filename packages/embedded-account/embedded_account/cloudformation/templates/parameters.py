"""Check the given parameters of a stack against its template, and resolve them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from embedded_account.cloudformation.faults import invalid
from embedded_account.cloudformation.templates.intrinsics import as_text
from embedded_account.cloudformation.templates.template import Template

_FROM_SSM = "AWS::SSM::Parameter::Value<"
HIDDEN = "****"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class ParameterStore(Protocol):
    """The source of values of type AWS::SSM::Parameter::Value<...>."""

    def ssm_parameter(self, name: str, version: str | None = None) -> str | None:
        """Return the value of an SSM parameter, or None if it does not exist."""


@dataclass(frozen=True)
class DeploymentParameters:
    """The parameters of one deployment.

    `given` holds each parameter's text before resolution (for example an SSM parameter's name), as DescribeStacks shows
    it. `values` holds what Ref returns, `hidden` the names with NoEcho.
    """

    given: dict[str, str]
    values: dict[str, Any]
    hidden: frozenset[str]
    from_ssm: frozenset[str]

    def describe(self) -> list[dict[str, str]]:
        """Return the parameters as DescribeStacks and DescribeChangeSet show them."""
        described = []
        for name, text in self.given.items():
            entry = {"ParameterKey": name, "ParameterValue": HIDDEN if name in self.hidden else text}
            if name in self.from_ssm:
                value = self.values[name]
                entry["ResolvedValue"] = ",".join(value) if isinstance(value, list) else value
            described.append(entry)
        return described


NO_PARAMETERS = DeploymentParameters({}, {}, frozenset(), frozenset())


def texts_of(request: list[dict[str, Any]], previous: Mapping[str, str]) -> dict[str, str]:
    """Return the parameter texts of an API request; UsePreviousValue takes them from `previous`."""
    texts = {}
    for item in request:
        name = item["ParameterKey"]
        if item.get("UsePreviousValue"):
            if "ParameterValue" in item:
                raise invalid(
                    f"Invalid input for parameter key {name}. Cannot specify usePreviousValue as true and non "
                    "empty value for a parameter"
                )
            if name not in previous:
                raise invalid(f"Parameters: [{name}] must have values")
            texts[name] = previous[name]
        else:
            texts[name] = str(item.get("ParameterValue", ""))
    return texts


def resolve(template: Template, texts: Mapping[str, str], store: ParameterStore) -> DeploymentParameters:
    """Check `texts` against the template's parameters and resolve them.

    Raises RefusedCallError (ValidationError) for unknown, missing or invalid values.
    """
    declared: dict[str, Any] = template.get("Parameters", {})
    unknown = [name for name in texts if name not in declared]
    if unknown:
        raise invalid(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    given = {name: as_text(slot["Default"]) for name, slot in declared.items() if "Default" in slot} | dict(texts)
    missing = [name for name in declared if name not in given]
    if missing:
        raise invalid(f"Parameters: [{', '.join(missing)}] must have values")
    values = {}
    for name, slot in declared.items():
        _check(name, slot, given[name])
        values[name] = _value(slot["Type"], given[name], store)
    return DeploymentParameters(
        given={name: given[name] for name in declared},
        values=values,
        hidden=frozenset(name for name, slot in declared.items() if _is_true(slot.get("NoEcho"))),
        from_ssm=frozenset(name for name, slot in declared.items() if slot["Type"].startswith(_FROM_SSM)),
    )


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def _value(kind: str, text: str, store: ParameterStore) -> Any:
    if kind.startswith(_FROM_SSM):
        found = store.ssm_parameter(text)
        if found is None:
            raise invalid(f"Unable to fetch parameters [{text}] from parameter store for this account.")
        return found.split(",") if "List<" in kind or "CommaDelimitedList" in kind else found
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [item.strip() for item in text.split(",")]
    return text


def _check(name: str, slot: dict[str, Any], text: str) -> None:
    problem = _problem(name, slot, text)
    if problem:
        hint = slot.get("ConstraintDescription")
        raise invalid(f"Parameter {name} failed to satisfy constraint: {hint}" if hint else problem)


def _problem(name: str, slot: dict[str, Any], text: str) -> str | None:
    items = text.split(",") if slot["Type"] == "CommaDelimitedList" else [text]
    allowed = slot.get("AllowedValues")
    if allowed and any(item not in [as_text(value) for value in allowed] for item in items):
        values = ", ".join(as_text(value) for value in allowed)
        return f"Parameter '{name}' must be one of AllowedValues: [{values}]"
    pattern = slot.get("AllowedPattern")
    if pattern and not re.fullmatch(pattern, text):
        return f"Parameter {name} failed to satisfy constraint: must match pattern {pattern}"
    if slot["Type"] == "Number" and not _NUMBER.fullmatch(text):
        return f"Parameter '{name}' must be a number."
    for key, breaks_limit, rule in _LIMITS:
        if key in slot and breaks_limit(text, float(slot[key])):
            return f"Parameter '{name}' {rule.format(slot[key])}"
    return None


_LIMITS: tuple[tuple[str, Callable[[str, float], bool], str], ...] = (
    ("MinLength", lambda text, limit: len(text) < limit, "must contain at least {} characters"),
    ("MaxLength", lambda text, limit: len(text) > limit, "must contain at most {} characters"),
    ("MinValue", lambda text, limit: float(text) < limit, "must be a number not less than {}"),
    ("MaxValue", lambda text, limit: float(text) > limit, "must be a number not greater than {}"),
)
