"""Reads an environment file and says everything that is wrong with it at once."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from config import document
from config.findings import ConfigError, Finding, Severity
from config.model import Environment
from config.rules import findings, findings_of_part

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "environments"


def available(directory: Path = DIRECTORY) -> list[str]:
    """Names of the environments that have a file."""
    return sorted(path.stem for path in directory.glob("*.yaml") if path.is_file())


def load(name: str, directory: Path = DIRECTORY) -> Environment:
    """Return the environment `name` (its file is `directory`/name.yaml).

    Raises ConfigError when there is no such file, it is not YAML, or its content is not allowed; warnings are
    `config.rules.findings`'s.
    """
    file = directory / f"{name}.yaml"
    if name not in available(directory):
        known = ", ".join(available(directory)) or "none"
        raise ConfigError(file, [Finding("", f"no such environment; there are: {known}")])
    try:
        content = document.read(file)
    except document.NotReadable as error:
        raise ConfigError(file, error.findings) from None
    except OSError as error:
        raise ConfigError(file, [Finding("", f"cannot be read: {error.strerror}")]) from None
    environment, errors = _validated(content, name)
    if environment is None or errors:
        raise ConfigError(file, errors)
    return environment


def neighbours(directory: Path = DIRECTORY) -> list[Environment]:
    """Return the environments whose values are of the right kind: what one takes is taken, though a rule refuse it."""
    found = []
    for name in available(directory):
        with suppress(document.NotReadable, OSError, ValidationError):
            found.append(_typed({"name": name} | document.read(directory / f"{name}.yaml")))
    return found


def _validated(content: dict[str, Any], name: str) -> tuple[Environment | None, list[Finding]]:
    """The environment, if all its values are of the right kind, and all errors."""
    errors = []
    if content.setdefault("name", name) != name:
        errors.append(Finding("name", f"{content['name']!r} must be the file's name, {name!r}"))
        content["name"] = name
    try:
        environment = _typed(content)
    except ValidationError as error:
        # Only now: a valid file is read in a third of a second, and that is what one waits for after each edit.
        from config import kinds, partial  # noqa: PLC0415

        refused = kinds.first_hand(error.errors(include_url=False))
        errors += [kinds.kind_finding(item, content) for item in refused]
        part = partial.known_part(content, [item["loc"] for item in refused])
        return None, errors + _errors(findings_of_part(part))
    return environment, errors + _errors(findings(environment))


def _typed(content: dict[str, Any]) -> Environment:
    # JSON mode keeps types strict ("4" is no number) while lists become tuples and text becomes networks.
    return Environment.model_validate_json(json.dumps(content))


def _errors(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.severity is Severity.ERROR]
