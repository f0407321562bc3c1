"""Resolve the references of an assembly's templates, so that both sides and all stacks can be compared."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ops.review.assembly import Assembly
from ops.review.cloudformation.values import REFERENCE
from ops.review.model import Danger

Key = tuple[str, str]
"""A resource: its stack's part and its logical id."""
_SUBSTITUTED: Final = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, eq=False)
class ResolvedTemplates:
    """One side of an environment, with references resolved to `${stack.logical id.attribute}`."""

    assembly: Assembly | None

    @cached_property
    def resources(self) -> Mapping[Key, Mapping[str, Any]]:
        """Return all resources by stack and logical id."""
        stacks = self.assembly.stacks if self.assembly else {}
        return {(part, id): resource for part, stack in stacks.items() for id, resource in stack.resources.items()}

    @cached_property
    def exports(self) -> Mapping[str, tuple[str, Any]]:
        """Return each export's stack and value by the export's name."""
        stacks = self.assembly.stacks if self.assembly else {}
        return {
            str(output["Export"]["Name"]): (part, output.get("Value"))
            for part, stack in stacks.items()
            for output in stack.template.get("Outputs", {}).values()
            if "Export" in output
        }

    @cached_property
    def properties(self) -> Mapping[Key, Mapping[str, Any]]:
        """Return the properties of each resource with resolved references."""
        resolved = {
            key: self.resolve(resource.get("Properties") or {}, key[0]) for key, resource in self.resources.items()
        }
        return {key: each if isinstance(each, Mapping) else {"Properties": each} for key, each in resolved.items()}

    def of_type(self, *types: str) -> list[tuple[Key, Mapping[str, Any]]]:
        """Return key and resolved properties of the resources of these types."""
        return [
            (key, self.properties[key]) for key, resource in self.resources.items() if resource.get("Type") in types
        ]

    def type_of(self, value: object) -> str:
        """Return the type of the resource that a resolved value refers to; empty if it refers to none."""
        match = REFERENCE.fullmatch(str(value))
        return str(self.resources.get((match[1], match[2]), {}).get("Type", "")) if match else ""

    def resolve(self, value: Any, stack: str) -> Any:
        """Return the value with each intrinsic function as a text; one that cannot be resolved stays recognisable."""
        if isinstance(value, list):
            return [self.resolve(each, stack) for each in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            name, argument = next(iter(value.items()))
            if name == "Ref" or name.startswith("Fn::"):
                try:
                    return self._function(name, argument, stack)
                except (TypeError, ValueError, AttributeError, IndexError):
                    # Arguments of another form than CloudFormation's reference has: an expression like any other.
                    return _text({name: argument})
        return {key: self.resolve(each, stack) for key, each in value.items()}

    def _function(self, name: str, argument: Any, stack: str) -> Any:
        if name == "Ref":
            return _pseudo(argument) or f"${{{stack}.{argument}.Ref}}"
        if name == "Fn::GetAtt":
            logical_id, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
            return f"${{{stack}.{logical_id}.{attribute}}}"
        if name == "Fn::Join" and argument[0] == "" and isinstance(argument[1], list):
            return "".join(_text(self.resolve(each, stack)) for each in argument[1])
        if name == "Fn::Sub":
            pattern, own = (argument, {}) if isinstance(argument, str) else argument
            return self._substituted(pattern, {key: self.resolve(each, stack) for key, each in own.items()}, stack)
        if name == "Fn::ImportValue":
            export = _text(self.resolve(argument, stack))
            if export in self.exports:
                exporter, exported = self.exports[export]
                return self.resolve(exported, exporter)
        return _text({name: self.resolve(argument, stack)})

    def _substituted(self, pattern: str, own: Mapping[str, Any], stack: str) -> str:
        def one(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in own:
                return _text(own[name])
            attribute = "" if "." in name else ".Ref"
            return _pseudo(name) or f"${{{stack}.{name}{attribute}}}"

        return str(_SUBSTITUTED.sub(one, pattern))


def _pseudo(name: str) -> str:
    """Return a pseudo parameter as text, empty if the name is none. An environment's partition never changes."""
    if name == "AWS::Partition":
        return "aws"
    return f"${{{name}}}" if name.startswith("AWS::") else ""


def _text(value: object) -> str:
    """Return a value inside a text. Quotes would break JSON texts that contain the value."""
    if isinstance(value, str):
        return value
    written = json.dumps(value, sort_keys=True).replace('"', "'").replace("\\", "/")
    return f"<{written}>" if isinstance(value, Mapping | list) else written


Renames = Mapping[Key, Key]
"""The new key of each resource that another construct continues."""


def renamed(value: Any, renames: Renames) -> Any:
    """Return a resolved value of the base as the head would write it."""
    if not renames:
        return value
    if isinstance(value, str):
        return REFERENCE.sub(lambda match: _new_name(match, renames), value)
    if isinstance(value, list):
        return [renamed(each, renames) for each in value]
    if isinstance(value, Mapping):
        return {key: renamed(each, renames) for key, each in value.items()}
    return value


def _new_name(match: re.Match[str], renames: Renames) -> str:
    stack, logical_id = renames.get((match[1], match[2]), (match[1], match[2]))
    return f"${{{stack}.{logical_id}.{match[3]}}}"


def referred(value: object) -> set[Key]:
    """Return the resources that a resolved value refers to."""
    return {(match[1], match[2]) for match in REFERENCE.finditer(json.dumps(value))}


@dataclass(frozen=True)
class ChangedResource:
    """A resource of the head that is new or differs."""

    key: Key
    kind: str
    new: bool
    """Whether the base lacks it, also under another name, or has it with another type."""
    before: Mapping[str, Any]
    """Its resolved properties in the base, as the head would write them; empty if it is new."""
    after: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class TemplateComparison:
    """Both sides of an environment. `base` is empty if the environment is new."""

    base: ResolvedTemplates
    head: ResolvedTemplates
    renames: Renames
    environment: str = ""

    @cached_property
    def _origins(self) -> Renames:
        return {new: old for old, new in self.renames.items()}

    def earlier(self, key: Key) -> Key | None:
        """Return what a resource of the head was called in the base; None if it is new, or of another type."""
        old = self._origins.get(key, key)
        then, now = self.base.resources.get(old), self.head.resources.get(key)
        return old if then and now and then.get("Type") == now.get("Type") else None

    def existed(self, key: Key) -> bool:
        """Return whether the base has this resource of the head, under its earlier name too."""
        return self.earlier(key) is not None

    def differing(self, *types: str) -> list[ChangedResource]:
        """Return the resources of the head that are new or differ; only those of the types, if any is given."""
        return [each for each in self._differing if not types or each.kind in types]

    def touch(self, *types: str) -> bool:
        """Return whether a resource of these types is new, differs or is gone."""
        kept = {self.earlier(key) for key in self.head.resources}
        return bool(self.differing(*types)) or any(
            resource.get("Type") in types and key not in kept for key, resource in self.base.resources.items()
        )

    @cached_property
    def _differing(self) -> list[ChangedResource]:
        found = []
        for key, declared in self.head.resources.items():
            old, after = self.earlier(key), self.head.properties[key]
            before = renamed(self.base.properties[old], self.renames) if old else {}
            if old is None or self.base.resources[old] != declared or before != after:
                found.append(ChangedResource(key, str(declared.get("Type")), old is None, before, after))
        return found


@dataclass(frozen=True)
class Risk:
    """One danger of one resource."""

    key: Key
    danger: Danger
    what: str
    """What differs, on one line."""
    reason: str
    confirmed_by: str = ""
