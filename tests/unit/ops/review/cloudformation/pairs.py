"""Make pairs of small cloud assemblies."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ops.review.assembly import Assembly, Pair, resource_changes
from ops.review.cloudformation import changes as cloudformation
from ops.review.model import Change, Danger, Effect

Template = Mapping[str, Any]
ACCOUNT = "111122223333"


class Pairs:
    """Writes assemblies below a folder, and reviews them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = 0

    def assembly(self, stacks: Mapping[str, Template], settings: Mapping[str, Template] | None = None) -> Assembly:
        """Return an assembly with these templates by stack part."""
        self._number += 1
        directory = self.folder / f"assembly-{self._number}"
        directory.mkdir()
        artifacts = {}
        for part, template in stacks.items():
            name = f"rayhp-dev-{part}"
            (directory / f"{name}.template.json").write_text(json.dumps(template))
            properties = {
                "templateFile": f"{name}.template.json",
                "assumeRoleArn": f"arn:aws:iam::{ACCOUNT}:role/cdk-deploy",
                **(settings or {}).get(part, {}),
            }
            artifacts[name] = {"type": "aws:cloudformation:stack", "properties": properties}
        (directory / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
        return Assembly(directory)

    def pair(self, before: Mapping[str, Template], after: Mapping[str, Template]) -> Pair:
        """Return a pair of assemblies with these templates by stack part."""
        return Pair("dev", self.assembly(before), self.assembly(after))

    def changes(self, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Change]:
        """Return the changes between the resources of a stack named storage."""
        base = None if before is None else self.assembly({"storage": {"Resources": before}})
        return changes(Pair("dev", base, self.assembly({"storage": {"Resources": after}})))

    def edited(self, resource: Mapping[str, Any], **properties: object) -> list[Change]:
        """Return the changes if properties of a resource named Thing change; None removes one."""
        after = copy.deepcopy(dict(resource))
        for name, value in properties.items():
            _set(after.setdefault("Properties", {}), name.split("__"), value)
        return self.changes({"Thing0123ABCD": resource}, {"Thing0123ABCD": after})


def changes(pair: Pair) -> list[Change]:
    """Return all changes of a pair."""
    return list(cloudformation.changes(pair, list(resource_changes(pair))))


def of(kind: str, attributes: Mapping[str, Any] | None = None, /, **properties: object) -> dict[str, Any]:
    """Return a resource of a template."""
    return {"Type": kind, "Properties": properties, **(attributes or {})}


def dangers(found: list[Change]) -> set[Danger]:
    """Return the dangers of all changes."""
    return {danger for change in found for danger in change.dangers}


def worst(found: list[Change]) -> Effect:
    """Return the worst effect."""
    return min((change.effect for change in found), key=lambda effect: effect.rank)


def _set(target: dict[str, Any], path: list[str], value: object) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    if value is None:
        target.pop(path[-1], None)
    else:
        target[path[-1]] = value
