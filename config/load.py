"""Reads an environment file and says everything that is wrong with it at once."""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from config.findings import ConfigError, Finding, Severity
from config.model import Environment
from config.rules import findings

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "environments"


def available(directory: Path = DIRECTORY) -> list[str]:
    """Names of the environments that have a file."""
    return sorted(path.stem for path in directory.glob("*.yaml"))


def load(name: str, directory: Path = DIRECTORY) -> Environment:
    """Return the environment `name` (its file is `directory`/name.yaml).

    Raises ConfigError when there is no such file, it is not YAML, or its content is not allowed; warnings are
    `config.rules.findings`'s.
    """
    file = directory / f"{name}.yaml"
    if not file.is_file():
        known = ", ".join(available(directory)) or "none"
        raise ConfigError(file, [Finding("", f"no such environment; there are: {known}")])
    document = _read(file)
    if document.setdefault("name", name) != name:
        raise ConfigError(file, [Finding("name", f"{document['name']!r} must be the file's name, {name!r}")])
    try:
        # JSON mode keeps types strict ("4" is no number) while lists become tuples and text becomes networks.
        environment = Environment.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise ConfigError(file, [_finding(item) for item in error.errors(include_url=False)]) from None
    if errors := [finding for finding in findings(environment) if finding.severity is Severity.ERROR]:
        raise ConfigError(file, errors)
    return environment


def _read(file: Path) -> dict[str, Any]:
    try:
        document = YAML(typ="safe", pure=True).load(file.read_text())
        json.dumps(document)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ConfigError(file, [Finding("", f"line {line}: {error.problem}")]) from None
    except (YAMLError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise ConfigError(file, [Finding("", f"not a YAML mapping of plain values: {error}")]) from None
    if not isinstance(document, dict):
        raise ConfigError(file, [Finding("", "must be a YAML mapping of keys to values")])
    return document


def _finding(error: Any) -> Finding:
    key = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "missing":
            message = "is missing"
        case "extra_forbidden":
            message = "is not a key here (unknown, or not supported yet)"
        case _:
            message = f"{error['msg'].removeprefix('Value error, ')}"
            if isinstance(error["input"], str | int | float | bool):
                message += f"; got {error['input']!r}"
    return Finding(key, message)
