"""Write what AWS demands of the values of the modelled types: `make constraints`.

cfn-lint contains AWS's registry schemas of all types, and the ends of Lambda's runtimes. Its 41 MB are too much for
what rehearsals install: the package ships the constraints of its own types, and these dates, in one small file.
"""

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from embedded_account.cloudformation.templates.constraints import FILE
from embedded_account.server import EXTENSIONS
from embedded_account.services import SERVICES
from embedded_account.services.shared.resource_model import REGISTERED

REGION: Final = "us-west-2"
_KEYWORDS: Final = (
    "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "uniqueItems",
)  # fmt: skip
# All other types of scalars accept any scalar, as CloudFormation does.
_STRICT_TYPES: Final = ("boolean", "integer", "number")
# Java's classes of characters, which Python's patterns lack: letters, digits, spaces.
_OF_JAVA: Final = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s"}

Schema = Mapping[str, Any]


def file_text() -> str:
    """Return the text of the file: one line for each property that has a constraint."""
    for name in (*EXTENSIONS, *(f"embedded_account.services.{each}" for each in SERVICES)):
        import_module(name)  # each registers its models
    types = {name: dict(_constraints(name)) for name in sorted(REGISTERED) if name.startswith("AWS::")}
    blocks = [
        f'"{name}": {{\n'
        + ",\n".join(f"{json.dumps(path)}: {json.dumps(found)}" for path, found in paths.items())
        + "\n}"
        for name, paths in types.items()
        if paths
    ]
    head = {"source": f"cfn-lint {version('cfn-lint')}", "runtimes_end": _runtimes_end()}
    return json.dumps(head, indent=0).removesuffix("\n}") + ',\n"types": {\n' + ",\n".join(blocks) + "\n}}\n"


def _runtimes_end() -> dict[str, str]:
    """Return from which day on Lambda creates no function with a runtime."""
    lifecycles = json.loads((files("cfnlint.data.AdditionalSpecs") / "LmbdRuntimeLifecycle.json").read_text())
    return {name: dates["create-block"] for name, dates in lifecycles.items() if dates["create-block"]}


def _constraints(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    schema: Schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region=REGION, resource_type=name).schema
    read_only = {path.removeprefix("/properties/") for path in schema.get("readOnlyProperties", ())}
    for key, each in sorted(schema["properties"].items()):
        if key not in read_only:
            yield from _of(schema, each, key, ())


def _of(root: Schema, schema: Schema, path: str, seen: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the constraints of a value and of all that it contains, each with its path."""
    if reference := schema.get("$ref"):
        if reference in seen:
            return
        target: Any = root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        yield from _of(root, {**target, **{k: v for k, v in schema.items() if k != "$ref"}}, path, (*seen, reference))
        return
    found = {word: schema[word] for word in _KEYWORDS if schema.get(word) not in (None, 0, False)}
    for theirs, ours in _OF_JAVA.items():
        if "pattern" in found:
            found["pattern"] = found["pattern"].replace(theirs, ours)
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if (kind := schema.get("type")) in _STRICT_TYPES:
        found["type"] = kind
    if found:
        yield path, found
    for key, each in sorted(schema.get("properties", {}).items()):
        yield from _of(root, each, f"{path}/{key}", seen)
    more = [schema.get("items"), schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    for each in more:
        if isinstance(each, dict):
            yield from _of(root, each, f"{path}/*", seen)


if __name__ == "__main__":
    FILE.write_text(file_text())
    print(f"constraints: wrote {FILE}")
