"""Generate the JSON schema of environment files for editors, and pages and tables of the documentation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from config.model import PARTS_OF_EKS
from config.model.environment import every_key
from config.reading.other_words import ABSENT
from ops import files
from ops.environment import explain, flows, observed, supported, updates
from ops.environment.generated import cell

_ROOT: Final = Path(__file__).resolve().parents[2]
SCHEMA: Final = _ROOT / "environments" / "schema.json"
REFERENCE: Final = _ROOT / "docs" / "reference" / "environment.md"
RULES: Final = _ROOT / "docs" / "reference" / "rules.md"
FLOWS: Final = _ROOT / "docs" / "reference" / "flows.md"
OBSERVED: Final = _ROOT / "docs" / "operate" / "observe.md"
VERSIONS: Final = _ROOT / "docs" / "reference" / "versions.md"
UPDATES: Final = _ROOT / "docs" / "explain" / "hyperpod-updates.md"
_INTRODUCTION: Final = """# The environment file

Most people edit only one YAML file in `environments/`. Generated from `config/model/` by `ops schema`.

`ops new NAME` writes a new file, and `ops new NAME --like EXAMPLE` copies an example. `ops check --env NAME` lists all
errors of a file, and `ops migrate` rewrites a file of an earlier schema. Editors that read `environments/schema.json`
complete the keys. Every key is listed here; other keys are refused. Keys in bold are required. A file has either
`eks`, `image` and `ray`, or `slurm` ([Slurm](../operate/slurm.md)), which allows none of these.
[Rules](rules.md) check values against each other; `ops explain ID` explains a rule. For keys of `hyperpod`, the last
column says what a change does to the running cluster ([why](../explain/hyperpod-updates.md)).
"""

_Schema = dict[str, Any]


def json_schema() -> str:
    """Return the schema of an environment file."""
    schema = every_key().model_json_schema()
    of_eks = [key for key in schema["required"] if key in PARTS_OF_EKS]
    # The name comes from the file's name.
    schema["required"] = [key for key in schema["required"] if key not in {"name", *of_eks}]
    schema["oneOf"] = [{"required": of_eks}, {"required": ["slurm"]}]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(schema, indent=2) + "\n"


def reference() -> str:
    """Return the page: a section for each mapping of the file, a row for each of its keys."""
    schema = json.loads(json_schema())
    return "\n".join([_INTRODUCTION, *_sections(schema, schema["$defs"], ""), *_absent()]) + "\n"


def stale() -> list[Path]:
    """Return the files that differ from the models."""
    return list(_stale())


def write() -> list[Path]:
    """Update the files; return those that were written."""
    changed = _stale()
    for path, text in changed.items():
        files.write(path, text)
    return list(changed)


def _stale() -> dict[Path, str]:
    """Return each file that differs, with the text that it should have."""
    files = {SCHEMA: json_schema(), REFERENCE: reference(), RULES: explain.page(), FLOWS: flows.page()}
    files[UPDATES] = updates.with_table(UPDATES.read_text())
    files[VERSIONS] = supported.with_table(VERSIONS.read_text())
    files[OBSERVED] = observed.with_tables(OBSERVED.read_text())
    return {path: text for path, text in files.items() if not path.is_file() or path.read_text() != text}


def _absent() -> Iterator[str]:
    yield from ("## What HyperPod has and no key asks for", "", "| feature | in AWS's API | instead |", "|---|---|---|")
    yield from (f"| {each.name} | `{each.field}` | {each.instead} |" for each in ABSENT)


def _sections(schema: _Schema, models: dict[str, _Schema], path: str) -> Iterator[str]:
    yield from (f"## `{path}`", "") if path else ("## Top level", "")
    yield from ("\n".join(line.strip() for line in schema["description"].splitlines()), "")
    explained = updates.explains(path)
    change = " a change of it |" if explained else ""
    yield from (f"| key | value | default | meaning |{change}", "|---|---|---|---|" + "---|" * explained)
    below = []
    for key, field in schema["properties"].items():
        required = key in schema.get("required", []) or any(key in way["required"] for way in schema.get("oneOf", []))
        name = f"**`{key}`**" if required else f"`{key}`"
        default = "" if required else _default(field)
        # pydantic omits a description that repeats the model's own.
        meaning, kind = field.get("description", ""), _kind(field)
        if model := _model(field):
            here = f"{path}.{key}" if path else key
            here += "[]" if "items" in _plain(field) else ""
            below.append((models[model], here))
            meaning = meaning or models[model]["description"].splitlines()[0]
            kind = f"[{kind}](#{''.join(c for c in here if c.isalnum() or c in '_-')})"
        change = f" {cell(updates.of_key(f'{path}.{key}'))} |" if explained else ""
        yield f"| {name} | {kind} | {default} | {cell(meaning)} |{change}"
    yield ""
    for model_schema, here in below:
        yield from _sections(model_schema, models, here)


def _plain(field: _Schema) -> _Schema:
    """Return the field's schema without the alternative `null`, which means an absent key."""
    alternatives = [option for option in field.get("anyOf", []) if option.get("type") != "null"]
    return alternatives[0] if alternatives else field


def _model(field: _Schema) -> str | None:
    plain = _plain(field)
    for place in (plain, plain.get("items", {}), plain.get("additionalProperties") or {}):
        if isinstance(place, dict) and "$ref" in place:
            return str(place["$ref"]).rsplit("/", 1)[1]
    return None


def _kind(field: _Schema) -> str:
    plain = _plain(field)
    if "$ref" in plain:
        return "mapping"
    values = field.get("enum") or plain.get("enum")
    if values:
        return ", ".join(f"`{value}`" for value in values if value is not None)
    if plain.get("type") == "array":
        return "list of mappings" if "$ref" in plain["items"] else f"list of {_kind(plain['items'])}"
    if plain.get("type") == "integer":
        return "number" + _bounds(plain)
    if plain.get("format") == "ipv4network":
        return "address block"
    return {"object": "mapping of names to values", "boolean": "`true`, `false`"}.get(plain["type"], "text")


def _bounds(plain: _Schema) -> str:
    least = plain.get("minimum", plain.get("exclusiveMinimum", -1) + 1 if "exclusiveMinimum" in plain else None)
    most = plain.get("maximum")
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    return f", {least:,} or more" if least is not None else ""


def _default(field: _Schema) -> str:
    value = field.get("default")
    if value is None or value in ([], {}) or isinstance(value, dict):
        return ""
    return f"`{json.dumps(value) if isinstance(value, bool) else value}`"
