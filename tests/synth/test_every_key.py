"""Every key of an environment has an effect: its change changes the cloud assembly, or the output of `ops check`."""

import copy
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from config import EksEnvironment, Environment
from config.findings import InvalidEnvironmentError
from config.model.environment import every_key
from config.rules import findings
from ops.environment.check import plan, warning_lines
from ops.render.manifests import render
from tests.synth.support.every_key import DOCUMENTS, KINDS, Change, add, content_of, environment_of, has, read, set_all
from tests.synth.support.synthesis import synthesise

# The document and the change of each key, by key.
CHANGES: Final[dict[str, tuple[str, Change]]] = {
    next(iter(change)): (document, change) for document, changes in read("changes").items() for change in changes
}
# Keys without a resource, such as figures and accepted warnings, which `ops check` shows.
SHOWN: Final[dict[str, tuple[str, Change]]] = {
    next(iter(change)): (document, change) for document, changes in read("shown").items() for change in changes
}
# The file's name: no other value is allowed.
FIXED: Final = {"name"}


def _keys(kind: str) -> list[str]:
    """Return the keys of the kind's document, without those whose change the rules refuse."""
    refused = KINDS[kind].get("refused", {})
    return [key for key in CHANGES | SHOWN if key not in refused and has(content_of(kind), key.split("."))]


def _change(kind: str, key: str) -> Change:
    """Return the key's change in this kind, without what follows it in sections that the kind leaves out."""
    _, change = (CHANGES | SHOWN)[key]
    change = KINDS[kind].get("instead", {}).get(key, change)
    return {each: value for each, value in change.items() if each == key or has(content_of(kind), each.split("."))}


def test_every_key_of_the_models_is_tried() -> None:
    schema = every_key().model_json_schema()
    tried = CHANGES.keys() | SHOWN.keys() | FIXED
    assert set(_leaves(schema, schema["$defs"], "")) == tried
    assert len(tried) == len(CHANGES) + len(SHOWN) + len(FIXED)
    assert not KINDS.keys() & DOCUMENTS, "a kind's content would replace the document's"


@pytest.mark.sampled(30)
@pytest.mark.parametrize("key", CHANGES)
def test_a_change_of_the_key_changes_the_assembly(key: str, tmp_path: Path) -> None:
    """A changed Kubernetes object is enough: test_manifests verifies that the assembly contains all objects."""
    document, change = CHANGES[key]
    assert _has_effect(document, key, change, tmp_path)


@pytest.mark.parametrize("key", SHOWN)
def test_a_change_of_the_key_changes_the_output_of_ops_check(key: str, tmp_path: Path) -> None:
    document, change = SHOWN[key]
    assert _shown(_changed(document, change, tmp_path)) != _shown(_changed(document, {}, tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_rules_accept_the_keys_of_a_kind_of_environment_and_no_others(kind: str, tmp_path: Path) -> None:
    keys = {*_keys(kind)}
    accepted = {key for key in (CHANGES | SHOWN) if _accepted(kind, key, tmp_path)}
    assert accepted == keys - KINDS[kind].get("refused", {}).keys()


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_that_ops_check_shows_is_shown_in_each_kind_of_environment(kind: str, tmp_path: Path) -> None:
    unchanged = _shown(_changed(kind, {}, tmp_path))
    keys = [key for key in _keys(kind) if key in SHOWN]
    silent = {key for key in keys if _shown(_changed(kind, _change(kind, key), tmp_path)) == unchanged}
    assert silent == KINDS[kind].get("without_effect", {}).keys() & SHOWN.keys()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind in KINDS for key in _keys(kind) if key in CHANGES])
def test_a_change_of_the_key_changes_the_assembly_of_each_kind(kind: str, key: str, tmp_path: Path) -> None:
    has_effect = _has_effect(kind, key, _change(kind, key), tmp_path)
    assert has_effect == (key not in KINDS[kind].get("without_effect", {}))


def _leaves(schema: Mapping[str, Any], models: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, field in schema["properties"].items():
        here = f"{path}.{key}".strip(".")
        plain = next(option for option in field.get("anyOf", [field]) if option.get("type") != "null")
        item = plain.get("items", {})
        if model := plain.get("$ref") or item.get("$ref"):
            yield from _leaves(models[model.rsplit("/", 1)[1]], models, f"{here}[]" if item else here)
        else:
            yield here


def _changed(document: str, change: Change, directory: Path) -> Environment:
    """Return the environment of the document with the change, which all rules accept."""
    content = copy.deepcopy(content_of(document))
    set_all(content, change)
    return environment_of(content, directory)


def _accepted(kind: str, key: str, directory: Path) -> bool:
    """Return whether the rules accept the key's change; the key is added if the kind's document lacks it."""
    content, home = copy.deepcopy(content_of(kind)), (CHANGES | SHOWN)[key][0]
    add(content, content_of(home), key.split("."))
    set_all(content, _change(kind, key))
    try:
        environment_of(content, directory)
    except InvalidEnvironmentError:
        return False
    return True


def _has_effect(document: str, key: str, change: Change, scratch: Path) -> bool:
    """Return whether the assembly differs from the one with what follows the key alone, if the rules accept that."""
    followers = {each: value for each, value in change.items() if each != key}
    try:
        _changed(document, followers, scratch)
    except InvalidEnvironmentError:
        followers = {}
    changed = _changed(document, change, scratch)
    if isinstance(changed, EksEnvironment) and render(changed) != _objects(document, json.dumps(followers)):
        return True
    return _fingerprint(changed, scratch) != _templates(document, json.dumps(followers))


@cache
def _objects(document: str, change: str) -> Mapping[Path, str]:
    with tempfile.TemporaryDirectory() as scratch:
        changed = _changed(document, json.loads(change), Path(scratch))
        assert isinstance(changed, EksEnvironment)
        return render(changed)


@cache
def _templates(document: str, change: str) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        return _fingerprint(_changed(document, json.loads(change), Path(scratch)), Path(scratch))


def _fingerprint(environment: Environment, directory: Path) -> str:
    """Return a hash of all templates, which name each asset by its content's hash."""
    out = synthesise(environment, directory).directory
    texts = [path.read_bytes() for path in sorted(out.glob("*.template.json"))]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _shown(environment: Environment) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(plan(environment), *warning_lines(findings(environment)))
    return capture.get()
