"""Read environment files and report all of their errors at once."""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from config.findings import ConfigError, Finding, InvalidEnvironmentError, Place, Severity, place_of
from config.model import PARTS_OF_EKS, EksEnvironment, Environment, SlurmEnvironment
from config.model.environment import model_of
from config.reading import strict_yaml
from config.reading.strict_yaml import YamlDocument
from config.rules import findings, findings_of_document, findings_of_part

_PROJECT: Final = Path(__file__).resolve().parent.parent
DIRECTORY_VARIABLE: Final = "RAYHP_ENVIRONMENTS"
"""Name of the variable with a folder of environments that is read instead of `environments/`."""
DIRECTORY: Final = Path(os.environ.get(DIRECTORY_VARIABLE) or _PROJECT / "environments").resolve()
EXAMPLES: Final = _PROJECT / "ops" / "environment" / "examples"
_SUFFIX: Final = ".yaml"
E = TypeVar("E", bound=Environment)


class Examined(NamedTuple):
    """An environment file: its findings, and the environment if all values are of the right kind."""

    name: str
    file: Path
    environment: Environment | None
    findings: list[Finding]
    document: YamlDocument | None = None

    @property
    def errors(self) -> list[Finding]:
        """The findings that prevent the use of the environment."""
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]

    def located(self, found: Iterable[Finding]) -> list[Finding]:
        """Return the findings with file and line."""
        return [_located(finding, self.file, self.document) for finding in found]


def available(directory: Path = DIRECTORY) -> list[str]:
    """Return the names of the user's environments: the files of `directory`."""
    return sorted(path.stem for path in directory.glob(f"*{_SUFFIX}") if path.is_file())


def examples() -> list[str]:
    """Return the names of the project's examples, which commands take like environments."""
    return available(EXAMPLES)


def file_of(name: str, directory: Path = DIRECTORY) -> Path:
    """Return the file of an environment, else of the example of that name, else the file that it should have."""
    own = directory / f"{name}{_SUFFIX}"
    return EXAMPLES / own.name if name not in available(directory) and name in examples() else own


def allowed_names(directory: Path = DIRECTORY) -> str:
    """Return the names that `load` takes, as messages list them."""
    own = available(directory)
    others = [name for name in examples() if name not in own]
    return f"{', '.join(own) or 'none, as the folder is empty'}; examples: {', '.join(others) or 'none'}"


def misnamed(directory: Path = DIRECTORY) -> list[Finding]:
    """Return an error for each file that looks like an environment but is not read."""
    return [
        Finding("", f"file {file.name!r}", "only .yaml files are read", f"{file.stem}{_SUFFIX}", "rename it", file=file)
        for file in sorted(directory.glob("*.yml"))
    ]


def name_of(given: str, directory: Path = DIRECTORY) -> str:
    """Return the environment's name for `dev`, `dev.yaml` and `environments/dev.yaml`.

    Any other text is returned unchanged: no environment has such a name.
    """
    path = Path(given)
    if path.suffix not in {_SUFFIX, ".yml"}:
        return given
    places = {(base / path).resolve().parent for base in (Path.cwd(), directory.parent)}
    return path.stem if path.name == given or directory.resolve() in places else given


def examine(name: str, directory: Path = DIRECTORY) -> Examined:
    """Return the environment or example `name` with all findings, or the reason why there is none.

    An environment of `directory` overrides an example of the same name.
    """
    file = file_of(name, directory)
    if name not in [*available(directory), *examples()]:
        return Examined(name, file, None, [_unknown(name, file, directory)])
    try:
        content = strict_yaml.read(file, _advice)
    except strict_yaml.UnreadableFileError as error:
        return Examined(name, file, None, error.findings)
    except OSError as error:
        problem = (
            "the file",
            f"it cannot be read: {error.strerror}",
            "a file that you may read",
            "check its permissions",
        )
        return Examined(name, file, None, [Finding("", *problem, file=file)])
    environment, found = validated(content.values, name, content.spellings)
    examined = Examined(name, file, environment, [], content)
    return examined._replace(findings=sorted(examined.located(found), key=lambda finding: finding.line))


def load(name: str, directory: Path = DIRECTORY) -> EksEnvironment:
    """Return the environment as `load_any` does. Raises ConfigError if EKS does not orchestrate its cluster."""
    return load_as(EksEnvironment, name, directory)


def load_as(kind: type[E], name: str, directory: Path = DIRECTORY) -> E:
    """Return the environment as `load_any` does. Raises ConfigError if it is of another type."""
    environment = load_any(name, directory)
    if isinstance(environment, kind):
        return environment
    raise ConfigError(
        f"environment {name!r} is invalid here: it has no `{kind.section}`. "
        f"Allowed: environments with {kind.section}. Fix: name such an environment"
    )


def load_any(name: str, directory: Path = DIRECTORY) -> Environment:
    """Return the environment, given by its name or its file. Raises InvalidEnvironmentError if it has errors."""
    examined = examine(name_of(name, directory), directory)
    if examined.environment is None or examined.errors:
        raise InvalidEnvironmentError(examined.errors)
    return examined.environment


def neighbours(directory: Path = DIRECTORY, *, of: str | None = None) -> list[Environment]:
    """Return the environments whose values are of the right kind: their names are in use even if rules refuse them.

    With `of`, return those beside this environment.
    """
    found = []
    for name in available(directory):
        if name == of:
            continue
        with suppress(strict_yaml.UnreadableFileError, OSError, ValidationError):
            found.append(_typed({"name": name} | strict_yaml.read(directory / f"{name}{_SUFFIX}").values))
    return found


def validated(
    values: dict[str, Any], name: str, spellings: Mapping[Place, str] = MappingProxyType({})
) -> tuple[Environment | None, list[Finding]]:
    """Return the environment if all its values are of the right kind, and all findings.

    `spellings` has the numbers that the file writes otherwise than Python.
    """
    found = []
    if values.setdefault("name", name) != name:
        reason, fix = "it is not the file's name", f"remove the key, or rename the file to {values['name']}{_SUFFIX}"
        found.append(Finding("name", repr(values["name"]), reason, name, fix))
        values["name"] = name
    found += findings_of_document(values)
    try:
        environment = _typed(values)
    except ValidationError as error:
        # Imported only here: valid files, which people check after each edit, then load faster.
        from config.reading import partial_environment, type_errors  # noqa: PLC0415

        refused = type_errors.first_hand(error.errors(include_url=False))
        found += [type_errors.kind_finding(item, values, spellings) for item in refused]
        part = partial_environment.known_part(values, [item["loc"] for item in refused])
        return None, found + findings_of_part(part)
    return environment, found + findings(environment)


def _advice(place: Place, text: str) -> tuple[str, str] | None:
    from config.reading import type_errors  # noqa: PLC0415 - only after an error, so that valid files load faster

    return type_errors.advice(place, text)


def _located(finding: Finding, file: Path, content: YamlDocument | None) -> Finding:
    if finding.file:
        return finding
    if content is None or not finding.key:
        return finding._replace(file=file)
    place = place_of(finding.key, content.values)
    stated = place in content.lines or finding.value.startswith("(")
    value = finding.value if stated else f"{finding.value} (the default)"
    return finding._replace(file=file, line=content.line(place), value=value)


def _unknown(name: str, file: Path, directory: Path) -> Finding:
    from config.suggest import did_you_mean  # noqa: PLC0415

    known = sorted({*available(directory), *examples()})
    shown, allowed = f"environment {name!r}", allowed_names(directory)
    if (other := file.with_suffix(".yml")).is_file():
        return Finding(
            "", shown, "only .yaml files are read", allowed, f"rename {other.name} to {file.name}", file=file
        )
    fix = did_you_mean(Path(name).stem, known, "choose one of them, or run `ops new NAME`")
    return Finding("", shown, "there is no such file", allowed, fix, file=file)


def _typed(values: dict[str, Any]) -> Environment:
    model = model_of(values)
    if model is SlurmEnvironment:
        # V87 refuses them.
        values = {key: value for key, value in values.items() if key not in PARTS_OF_EKS}
    # JSON mode keeps types strict ("4" is not a number), but accepts lists as tuples and text as networks.
    return model.model_validate_json(json.dumps(values))
