"""Each invalid value of any key gives a finding with file, line, key, value, reason, allowed values and fix."""

import copy
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from config import examine
from config.findings import Finding, Place
from config.model.environment import every_key
from config.reading.declared import allowed_at
from config.reading.partial_environment import model_within
from config.reading.strict_yaml import read
from tests.unit.support.findings import assert_whole, line_of, values_of_fix, write

# Together, these environments have every key of the models: test_every_key.py verifies this.
FOLDER: Final = Path(__file__).parents[2] / "synth" / "every_key"
DOCUMENTS: Final = ("new", "existing", "dynamic")
MISTAKES: Final = {"a scalar": {"a": [1]}, "a mapping": ["b"], "a list": "c"}

_EVERY_KEY: Final = every_key()


@cache
def document(name: str) -> dict[str, Any]:
    return read(FOLDER / f"{name}.yaml").values


def places(value: Any, model: type[BaseModel] | None = _EVERY_KEY, here: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Return each key and item of a document that a model declares, without the keys of free mappings."""
    if isinstance(value, list):
        for n, item in enumerate(value):
            yield (*here, n), item
            yield from places(item, model, (*here, n))
    elif isinstance(value, dict) and model:
        for name, inner in value.items():
            yield (*here, name), inner
            yield from places(inner, model_within(model.model_fields[name].annotation), (*here, name))


def _places() -> Iterator[tuple[str, Place]]:
    """Return each key of the models once, in the first document and item that has it."""
    seen = set()
    for name in DOCUMENTS:
        for place, _ in places(document(name)):
            key = tuple("[]" if isinstance(part, int) else part for part in place)
            if key not in seen:
                seen.add(key)
                yield name, place


PLACES: Final = list(_places())


def each(chosen: list[tuple[str, Place]]) -> pytest.MarkDecorator:
    """Return a parametrization with places, named by their keys."""
    params = [pytest.param(name, place, id=f"{name}-{'.'.join(map(str, place))}") for name, place in chosen]
    return pytest.mark.parametrize(("name", "place"), params)


def changed(name: str, place: Place, *value: Any) -> dict[str, Any]:
    """Return a copy of the document with another value, or without the key."""
    whole: Any = copy.deepcopy(document(name))
    inner = whole
    for part in place[:-1]:
        inner = inner[part]
    if value:
        inner[place[-1]] = value[0]
    else:
        del inner[place[-1]]
    return dict(whole)


def refused(content: dict[str, Any], place: Place, directory: Path) -> Finding:
    """Return the finding of that place, after checking its form and its line."""
    file = write(directory / "broken.yaml", content)
    key = ".".join(map(str, place))
    found = [finding for finding in examine("broken", directory).errors if finding.key == key and not finding.rule]
    assert len(found) == 1, (key, found)
    assert_whole(found[0])
    assert (found[0].file, found[0].line) == (file, line_of(file, place))
    return found[0]


def value_at(name: str, place: Place) -> Any:
    value: Any = document(name)
    for part in place:
        value = value[part]
    return value


@each(PLACES)
def test_a_value_of_another_kind_is_refused(name: str, place: Place, tmp_path: Path) -> None:
    value = value_at(name, place)
    kind = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a scalar"
    finding = refused(changed(name, place, MISTAKES[kind]), place, tmp_path)
    assert re.match(r"it is (text|a list|a mapping)|it is not an address block|it is not one", finding.reason)


@each([(name, place) for name, place in PLACES if isinstance(value_at(name, place), dict)])
def test_an_unknown_key_is_refused(name: str, place: Place, tmp_path: Path) -> None:
    """The finding lists the known keys. Free mappings accept any key."""
    keys = list(value_at(name, place))
    if not keys or not any(place == other[:-1] for _, other in PLACES):
        return
    finding = refused(changed(name, place, value_at(name, place) | {"": 1}), (*place, ""), tmp_path)
    assert set(keys) <= set(finding.allowed.split(", "))


@each(PLACES)
def test_a_text_of_another_shape_is_refused_with_a_sentence(name: str, place: Place, tmp_path: Path) -> None:
    allowed = allowed_at(place)
    if allowed.shape:
        finding = refused(changed(name, place, " "), place, tmp_path)
        assert finding.allowed == f"{allowed.shape.what}, such as {allowed.shape.like}"
        assert re.search(str(allowed.shape.pattern), allowed.shape.like)


@each(PLACES)
def test_a_required_key_that_is_missing_is_named(name: str, place: Place, tmp_path: Path) -> None:
    model: Any = _EVERY_KEY
    for part in place[:-1]:
        model = model if isinstance(part, int) else model_within(model.model_fields[part].annotation)
    field = None if isinstance(place[-1], int) else model.model_fields[place[-1]]
    if field and field.is_required():
        finding = refused(changed(name, place), place, tmp_path)
        assert (finding.value, finding.reason) == ("(missing)", "the key is required")
        assert f"add `{place[-1]}`" in finding.fix


# A value of each kind, and each text that readers of YAML disagree on, as a file writes it.
WRITTEN: Final = (
    *("1.30", "7", "99999999", "1e3", '"7"', '"yes"', "true", '"true"', "zzz", "yes", "Off", "TRUE", "012345678901"),
    *("0x1F", "1_000", "12:30", "2026-11-27", ".inf"),
)
_LEAVES: Final = [(name, place) for name, place in PLACES if not isinstance(value_at(name, place), dict | list)]


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_value_that_the_fix_of_a_type_error_names_is_accepted(name: str, text: str, tmp_path: Path) -> None:
    """All keys get the wrong value at once, then each fix's first value, then its last."""
    places = {".".join(map(str, place)): place for other, place in _LEAVES if other == name}
    wrong = _type_errors(tmp_path, name, dict.fromkeys(places.values(), text))
    assert wrong
    fixes = {places[key]: values_of_fix(finding) for key, finding in wrong.items()}
    assert [str(wrong[".".join(map(str, place))]) for place, values in fixes.items() if not values] == []
    for nth in (0, -1):
        left = _type_errors(tmp_path, name, {place: values[nth] for place, values in fixes.items()})
        assert [(str(wrong[key]), str(finding)) for key, finding in left.items() if key in wrong] == []


def _type_errors(directory: Path, name: str, texts: dict[Place, str]) -> dict[str, Finding]:
    """Return the findings of the types by their keys, after writing these texts into the document."""
    whole: Any = copy.deepcopy(document(name))
    for number, place in enumerate(texts):
        inner = whole
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = f"replaced-{number}-here"
    file = write(directory / "broken.yaml", whole)
    file.write_text(re.sub(r"replaced-(\d+)-here", lambda found: [*texts.values()][int(found[1])], file.read_text()))
    return {each.key: each for each in examine("broken", directory).errors if not each.rule}


def test_every_pattern_of_the_schema_has_a_sentence() -> None:
    """Without a sentence, the finding would quote the regular expression."""
    shapes = {str(shape.pattern) for shape in _shapes()}
    assert shapes >= {pattern for pattern in _patterns(_EVERY_KEY.model_json_schema()) if pattern != _BY_A_RULE}


# `hyperpod.cluster_name`: the schema's pattern is for editors only, because a rule gives a better finding.
_BY_A_RULE: Final = "^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        yield from schema.get("patternProperties", {})
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _patterns(inner)


def _shapes() -> Iterator[Any]:
    yield from (allowed_at(("accepted_warnings", "V1"), key=key).shape for key in (False, True))
    for name in DOCUMENTS:
        for place, value in places(document(name)):
            if shape := allowed_at(place).shape:
                yield shape
            if isinstance(value, dict) and value and allowed_at(place).text == "a mapping of keys to values":
                key = next(iter(value))
                yield from filter(None, (allowed_at((*place, key), key=of_key).shape for of_key in (False, True)))
