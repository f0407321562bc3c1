"""Edit a copy of a cloud assembly by types, construct ids and names of objects."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.synth.support.kubernetes_objects import MANIFEST, RELEASE

Body = dict[str, Any]
_PLACE: Final = "__intrinsic_{}__"
_SUFFIX: Final = ".template.json"
# What CDK appends to a logical id.
_DIGEST: Final = re.compile(r"[0-9A-F]{8}$")
_HASH: Final = re.compile(r"asset\.([0-9a-f]{64})")


def copy(assembly: Path, target: Path) -> None:
    """Copy templates and manifest.json, and link the assets."""
    target.mkdir(parents=True)
    for path in assembly.iterdir():
        if path.name == "manifest.json" or path.name.endswith(_SUFFIX):
            shutil.copyfile(path, target / path.name)
        elif path.name.startswith("asset."):
            (target / path.name).symlink_to(path)


@dataclass
class Edit:
    """A copy of an assembly under edit; `save` writes it. What is not found is an AssertionError."""

    directory: Path
    templates: dict[str, Body] = field(init=False)
    manifest: Body = field(init=False)

    def __post_init__(self) -> None:
        self.manifest = json.loads((self.directory / "manifest.json").read_text())
        self.templates = {part: json.loads(path.read_text()) for part, path in self._files().items()}

    def save(self) -> None:
        """Write manifest.json and the templates; remove those of stacks that are gone."""
        (self.directory / "manifest.json").write_text(json.dumps(self.manifest))
        for part, path in self._files().items():
            if part in self.templates:
                path.write_text(json.dumps(self.templates[part]))
            else:
                path.unlink()

    def find(self, part: str, kind: str, construct: str = "") -> tuple[str, Body]:
        """Return the logical id and the body of the only resource of the type, or of the one that is this construct.

        A construct's name is its path as CDK writes it into the logical id: `FlowLogsLog`.
        """
        resources = self.templates[part]["Resources"]
        all = [(id, body) for id, body in resources.items() if body["Type"] == kind]
        found = [(id, body) for id, body in all if construct in ("", _DIGEST.sub("", id))]
        assert len(found) == 1, f"{part}: {len(found)} resources {kind} {construct}, of {[id for id, _ in all]}"
        return found[0]

    def properties(self, part: str, kind: str, construct: str = "") -> Body:
        """Return the properties of the only resource of the type, or of the one that is this construct."""
        properties: Body = self.find(part, kind, construct)[1].setdefault("Properties", {})
        return properties

    def add(self, part: str, construct: str, kind: str, **properties: Any) -> None:
        """Add a resource as CDK writes it."""
        self.templates[part]["Resources"][_logical_id(construct)] = {"Type": kind, "Properties": properties}

    def delete(self, part: str, kind: str, construct: str = "") -> Body:
        """Delete a resource, with the outputs and the dependencies that name it; return it."""
        id, body = self.find(part, kind, construct)
        template = self.templates[part]
        del template["Resources"][id]
        outputs = template.get("Outputs", {})
        template["Outputs"] = {name: each for name, each in outputs.items() if f'"{id}"' not in json.dumps(each)}
        for other in template["Resources"].values():
            if id in (needs := other.get("DependsOn", [])):
                other["DependsOn"] = [each for each in needs if each != id]
        return body

    def rename(self, part: str, kind: str, construct: str, new: str) -> None:
        """Give a construct another id: its resource gets another logical id, wherever the template names it."""
        id, _ = self.find(part, kind, construct)
        text = json.dumps(self.templates[part]).replace(f'"{id}"', f'"{_logical_id(new)}"')
        self.templates[part] = json.loads(text)

    def stack(self, part: str) -> str:
        """Return the stack's name."""
        return self._files()[part].name.removesuffix(_SUFFIX)

    def settings(self, part: str) -> Body:
        """Return the stack's properties in manifest.json."""
        settings: Body = self.manifest["artifacts"][self.stack(part)]["properties"]
        return settings

    def remove_stack(self, part: str) -> None:
        """Remove a whole stack."""
        del self.manifest["artifacts"][self.stack(part)]
        del self.templates[part]

    @contextmanager
    def objects(self, part: str, kind: str, name: str) -> Iterator[list[Body]]:
        """Give all objects of the manifest that holds the object of this kind and `name` or `namespace/name`."""
        for body in self.templates[part]["Resources"].values():
            if body["Type"] == MANIFEST:
                objects, parts = _parsed(body["Properties"]["Manifest"])
                if any(_is(each, kind, name) for each in objects):
                    yield objects
                    body["Properties"]["Manifest"] = _serialised(objects, parts)
                    return
        raise AssertionError(f"{part} has no {kind} {name}")

    @contextmanager
    def object(self, part: str, kind: str, name: str) -> Iterator[Body]:
        """Give one object of a manifest."""
        with self.objects(part, kind, name) as objects:
            [found] = [each for each in objects if _is(each, kind, name)]
            yield found

    def remove_object(self, part: str, kind: str, name: str) -> None:
        """Remove one object of a manifest."""
        with self.objects(part, kind, name) as objects:
            objects[:] = [each for each in objects if not _is(each, kind, name)]

    def delete_manifest(self, part: str, kind: str, name: str) -> None:
        """Delete the manifest that holds the object, with all its objects."""
        del self.templates[part]["Resources"][self.manifest_of(part, kind, name)]

    def manifest_of(self, part: str, kind: str, name: str) -> str:
        """Return the logical id of the manifest that holds the object."""
        for id, body in self.templates[part]["Resources"].items():
            if body["Type"] == MANIFEST:
                objects, _ = _parsed(body["Properties"]["Manifest"])
                if any(_is(each, kind, name) for each in objects):
                    return str(id)
        raise AssertionError(f"{part} has no {kind} {name}")

    def apply(self, part: str, construct: str, *objects: Body) -> None:
        """Add a manifest with these objects."""
        tokens = next(body for body in self.templates[part]["Resources"].values() if body["Type"] == MANIFEST)
        self.add(part, construct, MANIFEST, **tokens["Properties"] | {"Manifest": _text(list(objects))})

    def release(self, part: str, name: str) -> Body:
        """Return the properties of a Helm release."""
        releases = [body for body in self.templates[part]["Resources"].values() if body["Type"] == RELEASE]
        [found] = [body["Properties"] for body in releases if body["Properties"]["Release"] == name]
        properties: Body = found
        return properties

    @contextmanager
    def values(self, part: str, release: str) -> Iterator[Body]:
        """Give the values of a Helm release."""
        properties = self.release(part, release)
        values, parts = _parsed(properties.get("Values", "{}"))
        yield values
        properties["Values"] = _serialised(values, parts)

    def rewrite(self, file: str, change: Callable[[str], str], *, holding: str = "") -> None:
        """Change the text of a file in the only asset that holds it: the asset gets another hash everywhere.

        With `holding`, only a file that has this text counts. `change` may return an empty text: the file is removed.
        """
        found = [path for path in sorted(self.directory.glob("asset.*")) if (path / file).is_file()]
        found = [path for path in found if not holding or holding in (path / file).read_text()]
        assert len(found) == 1, f"{len(found)} assets hold {file}"
        text = (found[0] / file).read_text()
        changed = change(text)
        assert changed != text, f"{file} is unchanged"
        old = _HASH.search(found[0].name)
        assert old
        new = hashlib.sha256(changed.encode()).hexdigest()
        target = self.directory / f"asset.{new}"
        shutil.copytree(found[0], target)
        # The copy has links to the assets of the shared assembly; an asset that was edited before is a folder.
        found[0].unlink() if found[0].is_symlink() else shutil.rmtree(found[0])
        if changed:
            (target / file).write_text(changed)
        else:
            (target / file).unlink()
        before = json.dumps(self.templates)
        after = before.replace(old[1], new)
        assert after != before, f"no template names the asset of {file}"
        self.templates = json.loads(after)

    def _files(self) -> dict[str, Path]:
        paths = sorted(self.directory.glob(f"*{_SUFFIX}"))
        return {path.name.removesuffix(_SUFFIX).rpartition("-")[2]: path for path in paths}


def reverse_keys(value: Any) -> Any:
    """Return the value with the keys of each mapping in reverse order."""
    if isinstance(value, dict):
        return {key: reverse_keys(each) for key, each in reversed(value.items())}
    return [reverse_keys(each) for each in value] if isinstance(value, list) else value


def one(items: list[Body], **wanted: Any) -> Body:
    """Return the only item with these values."""
    [found] = [each for each in items if all(each.get(key) == value for key, value in wanted.items())]
    return found


def instance_group(edit: Edit, name: str) -> Body:
    """Return an instance group of the HyperPod cluster."""
    return one(edit.properties("hyperpod", "Custom::HyperPodCluster")["InstanceGroups"], InstanceGroupName=name)


def swap(old: str, new: str) -> Callable[[str], str]:
    """Return a change of the only place that has the text."""

    def change(text: str) -> str:
        assert text.count(old) == 1, f"{text.count(old)} times {old}"
        return text.replace(old, new)

    return change


def after_line(beginning: str, *added: str) -> Callable[[str], str]:
    """Return a change that adds lines after the only line with this beginning."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        [number] = [number for number, line in enumerate(lines) if line.startswith(beginning)]
        return "".join([*lines[: number + 1], *(f"{each}\n" for each in added), *lines[number + 1 :]])

    return change


def _logical_id(construct: str) -> str:
    return construct + hashlib.sha256(construct.encode()).hexdigest()[:8].upper()


def _is(item: Body, kind: str, name: str) -> bool:
    metadata = item["metadata"]
    return item["kind"] == kind and name in (metadata["name"], f"{metadata.get('namespace', '')}/{metadata['name']}")


def _parsed(value: Any) -> tuple[Any, list[Any]]:
    """Parse a JSON text; return it with places for its intrinsic functions, and these."""
    if isinstance(value, str):
        return json.loads(value), []
    _, pieces = value["Fn::Join"]
    intrinsic = [each for each in pieces if not isinstance(each, str)]
    numbers = iter(range(len(intrinsic)))
    text = "".join(each if isinstance(each, str) else _PLACE.format(next(numbers)) for each in pieces)
    return json.loads(text), intrinsic


def _serialised(content: Any, intrinsic: list[Any]) -> Any:
    text = _text(content)
    if not intrinsic:
        return text
    pieces = re.split(_PLACE.format(r"(\d+)"), text)
    return {"Fn::Join": ["", [intrinsic[int(each)] if at % 2 else each for at, each in enumerate(pieces)]]}


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
