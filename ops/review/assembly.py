"""Read a synthesised cloud assembly, and pair the resources of two."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ops.review.checkouts.cdk import ReviewError
from ops.review.model import Address

Properties = Mapping[str, Any]
RETAINED: Final = ("Retain", "RetainExceptOnCreate")
"""The values of DeletionPolicy with which CloudFormation leaves a resource that its stack loses."""
HASH: Final = re.compile(r"(?<=.)[0-9A-F]{8}$")
"""What CDK adds to the names of constructs in a logical id."""
_SUFFIX: Final = ".template.json"


def stable(logical_id: str) -> str:
    """Return the construct's name: a logical id without CDK's hash."""
    return HASH.sub("", logical_id)


def number(value: Any) -> int | None:
    """Return the number; None if it is known only at the deployment or is none."""
    return int(value) if isinstance(value, int | str) and str(value).isdecimal() else None


@dataclass(frozen=True)
class AssemblyStack:
    """One stack of an assembly."""

    name: str
    """CloudFormation's name: `rayhp-dev-storage`."""
    part: str
    """The last part of the name: `storage`."""
    template: Mapping[str, Any]
    settings: Mapping[str, Any]
    """The stack's properties in manifest.json: `terminationProtection`, `tags`, …, and its `environment`."""
    artifact: str = ""
    """Its key in manifest.json."""
    dependencies: frozenset[str] = frozenset()
    """Keys of the artifacts that are deployed before it."""

    @cached_property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the resources by logical id.

        Raises ReviewError if one is no declaration, such as Fn::ForEach.
        """
        found = dict(self.template.get("Resources", {}))
        for name, resource in found.items():
            if not isinstance(resource, Mapping):
                raise ReviewError(f"stack {self.name}: {name} is no resource. Fix: declare each resource by itself")
        return found


@dataclass(frozen=True, eq=False)
class Assembly:
    """One side of one environment, as its files are when they are first read.

    An assembly equals only itself: what has been read of one is not taken for another's of the same folder.
    """

    directory: Path
    foreign: bool = False
    """Whether code that nobody has reviewed yet wrote it: no program in it is run."""

    @cached_property
    def stacks(self) -> Mapping[str, AssemblyStack]:
        """Return the stacks by part.

        Raises ReviewError if manifest.json or a template cannot be read.
        """
        found: dict[str, AssemblyStack] = {}
        for stack in self._stacks():
            if (other := found.setdefault(stack.part, stack)) is not stack:
                raise ReviewError(
                    f"{self.directory}: stacks {other.name} and {stack.name} are both part {stack.part}. "
                    "Allowed: one stack for each part. Fix: rename one"
                )
        return found

    def dependents(self, part: str) -> tuple[str, ...]:
        """Return the parts of the stacks that are deployed only after this one, in the order of manifest.json."""
        behind = {self.stacks[part].artifact}
        while more := {each.artifact for each in self.stacks.values() if each.dependencies & behind} - behind:
            behind |= more
        return tuple(each.part for each in self.stacks.values() if each.artifact in behind and each.part != part)

    def asset(self, digest: str) -> Path | None:
        """Return the folder or file of an asset by its hash; None if the assembly lacks it."""
        return next((path for path in sorted(self.directory.glob(f"asset.{digest}*"))), None)

    def _stacks(self) -> Iterator[AssemblyStack]:
        manifest = _document(self.directory / "manifest.json")
        artifacts = manifest.get("artifacts")
        if not isinstance(artifacts, Mapping):
            missing = f"{self.directory / 'manifest.json'} has no artifacts"
            raise ReviewError(f"{missing}. Fix: synthesise the checkout again")
        for key, artifact in artifacts.items():
            if artifact.get("type") == "cdk:cloud-assembly":
                nested = f"{self.directory / 'manifest.json'} has a nested assembly (a Stage), which is not reviewed"
                raise ReviewError(f"{nested}. Allowed: stacks of the app itself. Fix: move its stacks to the app")
            if artifact.get("type") == "aws:cloudformation:stack":
                # Account and region stand beside the properties.
                settings = {**artifact.get("properties", {}), "environment": artifact.get("environment")}
                name = str(settings.get("stackName") or settings["templateFile"].removesuffix(_SUFFIX))
                template = _document(self.directory / settings["templateFile"])
                needs = frozenset(map(str, artifact.get("dependencies", ())))
                yield AssemblyStack(name, name.rpartition("-")[2], template, settings, str(key), needs)


@dataclass(frozen=True)
class Pair:
    """Both sides of one environment; `base` is None if the environment is new."""

    environment: str
    base: Assembly | None
    head: Assembly
    removable_nodes: int = field(default=0, kw_only=True)
    """How many nodes or worker pods may go without an approval, as the base says."""


@dataclass(frozen=True)
class ResourceChange:
    """A resource that differs between both sides of one stack. One of `before` and `after` may be None."""

    stack: str
    """The stack's part: `storage`."""
    logical_id: str
    type: str
    """`after`'s type, or `before`'s if it is deleted. A changed type is a replacement."""
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    """The whole resource: Type, Properties, DeletionPolicy, DependsOn, Metadata, …"""

    @property
    def address(self) -> Address:
        """Return what identifies the resource on both sides."""
        return self.stack, self.logical_id

    @property
    def changed_properties(self) -> list[str]:
        """Return the names of the top-level properties that differ."""
        before, after = ((side or {}).get("Properties", {}) for side in (self.before, self.after))
        return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def resource_changes(pair: Pair) -> Iterator[ResourceChange]:
    """Yield every resource that is created, deleted or differs, metadata included, in the order of the templates."""
    base = pair.base.stacks if pair.base else {}
    for part in dict.fromkeys([*base, *pair.head.stacks]):
        before = base[part].resources if part in base else {}
        after = pair.head.stacks[part].resources if part in pair.head.stacks else {}
        for logical_id in dict.fromkeys([*before, *after]):
            old, new = before.get(logical_id), after.get(logical_id)
            if old != new:
                kind = (new or old or {}).get("Type", "")
                yield ResourceChange(part, logical_id, str(kind), old, new)


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ReviewError(f"{path} cannot be read: {error}. Fix: synthesise the checkout again") from error
    if not isinstance(document, Mapping):
        raise ReviewError(f"{path} is not a JSON object. Fix: synthesise the checkout again")
    return document
