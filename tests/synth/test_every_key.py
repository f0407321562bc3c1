"""Every key of an environment has an effect: its change changes the cloud assembly, or the output of `ops check`."""

import copy
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from config import Environment
from config.rules import findings
from ops.environment.check import plan, said
from ops.render.manifests import render
from tests.synth.support.every_key import environment_of, read
from tests.synth.support.synthesis import synthesise

Change = Mapping[str, Any]


# The document and the change of each key, by key.
CHANGES: Final[dict[str, tuple[str, Change]]] = {
    next(iter(change)): (document, change) for document, changes in read("changes").items() for change in changes
}
# Keys without a resource, such as figures and accepted warnings, which `ops check` shows.
SHOWN: Final[dict[str, tuple[str, Change]]] = {
    next(iter(change)): (document, change) for document, changes in read("shown").items() for change in changes
}
# The file's name, and the version for which the image is locked: no other value is allowed.
FIXED: Final = {"name", "ray.version"}
# Keys that no offered version of KubeRay allows (V101); tests/charts/test_network_policies.py shows their effect.
REFUSED: Final = {"aws_ray.hang_detection", "aws_ray.metrics"}


def test_every_key_of_the_models_is_tried() -> None:
    schema = Environment.model_json_schema()
    tried = CHANGES.keys() | SHOWN.keys() | FIXED | REFUSED
    assert set(_leaves(schema, schema["$defs"], "")) == tried
    assert len(tried) == len(CHANGES) + len(SHOWN) + len(FIXED) + len(REFUSED)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("key", CHANGES)
def test_a_change_of_the_key_changes_the_assembly(key: str, tmp_path: Path) -> None:
    """A changed Kubernetes object is enough: test_manifests verifies that the assembly contains all objects."""
    document, change = CHANGES[key]
    changed = _changed(document, change, tmp_path)
    if changed.slurm or render(changed) == _unchanged_objects(document):
        assert _fingerprint(changed, tmp_path) != _unchanged(document, tmp_path)


@pytest.mark.parametrize("key", SHOWN)
def test_a_change_of_the_key_changes_the_output_of_ops_check(key: str, tmp_path: Path) -> None:
    document, change = SHOWN[key]
    assert _shown(_changed(document, change, tmp_path)) != _shown(_changed(document, {}, tmp_path))


def _leaves(schema: Mapping[str, Any], models: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, field in schema["properties"].items():
        here = f"{path}.{key}".strip(".")
        plain = next(option for option in field.get("anyOf", [field]) if option.get("type") != "null")
        item = plain.get("items", {})
        if model := plain.get("$ref") or item.get("$ref"):
            yield from _leaves(models[model.rsplit("/", 1)[1]], models, f"{here}[]" if item else here)
        else:
            yield here


_fingerprints: Final[dict[str, str]] = {}


def _unchanged(document: str, scratch: Path) -> str:
    if document not in _fingerprints:
        _fingerprints[document] = _fingerprint(_changed(document, {}, scratch), scratch / "unchanged")
    return _fingerprints[document]


@cache
def _unchanged_objects(document: str) -> Mapping[Path, str]:
    with tempfile.TemporaryDirectory() as directory:
        return render(_changed(document, {}, Path(directory)))


def _changed(document: str, change: Change, directory: Path) -> Environment:
    """Return the environment of the document with the change, which all rules accept."""
    content = copy.deepcopy(_documents(document))
    for key, value in change.items():
        _set(content, key.split("."), value)
    return environment_of(content, directory)


@cache
def _documents(name: str) -> Any:
    return read(name)


def _set(content: Any, keys: list[str], value: Any) -> None:
    key, *rest = keys
    name = key.removesuffix("[]")
    if not rest:
        if value is None:
            content.pop(name, None)
        else:
            content[name] = value
    elif key.endswith("[]"):
        _set(next(item for item in content[name] if _has(item, rest)), rest, value)
    else:
        _set(content.setdefault(name, {}), rest, value)


def _has(item: Any, keys: list[str]) -> bool:
    key, *rest = keys
    name = key.removesuffix("[]")
    return name in item and (not rest or key.endswith("[]") or _has(item[name], rest))


def _fingerprint(environment: Environment, directory: Path) -> str:
    """Return a hash of all templates, which name each asset by its content's hash."""
    directory.mkdir(exist_ok=True)
    out = synthesise(environment, directory).directory
    texts = [path.read_bytes() for path in sorted(out.glob("*.template.json"))]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _shown(environment: Environment) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(plan(environment), *said(findings(environment)))
    return capture.get()
