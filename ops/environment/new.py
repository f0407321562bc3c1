"""Write the files of `ops new` and `ops import`: commented, with physical names that no other environment has."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from config.load import DIRECTORY, EXAMPLES, examples
from config.reading.declared import allowed_at
from config.suggest import did_you_mean
from ops import files

_TEMPLATE: Final = Path(__file__).with_name("new_environment.yaml")
_SCHEMA_LINE: Final = "# yaml-language-server: $schema=schema.json\n"
_PLACEHOLDER: Final = re.compile(r"\$\{\w+\}")


class NewError(Exception):
    """The file cannot be written; `str()` says why."""


@dataclass(frozen=True)
class Place:
    """The account, region and zones of the environment; None leaves a named placeholder to fill."""

    account: str | None = None
    region: str | None = None
    zones: Sequence[str] = ()


def template(name: str, place: Place, directory: Path = DIRECTORY) -> CommentedMap:
    """Return the document of a new environment `name`."""
    document: CommentedMap = _yaml().load(_TEMPLATE)
    if place.account:
        document["account"] = DoubleQuotedScalarString(place.account)
    if place.region:
        document["region"] = place.region
        if not place.zones:
            document["network"]["zones"] = _flow(["${ZONE_ID_1}", "${ZONE_ID_2}"])
    if place.zones:
        document["network"]["zones"] = _flow(place.zones)
    document["network"]["vpc_cidr"] = _free_block(directory)
    document["hyperpod"]["cluster_name"] += f"-{name}"
    document["image"]["repository"] += f"-{name}"
    return document


def copy_of(example: str, name: str, place: Place, directory: Path = DIRECTORY) -> CommentedMap:
    """Return an example's document, comments included, with the place and the physical names of environment `name`."""
    if example not in examples():
        allowed, fix = ", ".join(examples()), did_you_mean(example, examples())
        raise NewError(f"--like: {example!r} is invalid: there is no such example. Allowed: {allowed}. Fix: {fix}")
    text = (EXAMPLES / f"{example}.yaml").read_text().partition("\n")[2]
    stated = _yaml().load(text)
    # ARNs and registries contain both, too.
    for key, value in (("account", place.account), ("region", place.region)):
        text = text.replace(stated[key], value or stated[key])
    document: CommentedMap = _yaml().load(text)
    network = document["network"]
    if "existing" not in network:
        network["vpc_cidr"] = _free_block(directory)
        if place.zones:
            network["zones"] = _flow(place.zones)
        elif place.region not in {None, stated["region"]}:
            network["zones"] = _flow([f"${{ZONE_ID_{n}}}" for n, _ in enumerate(stated["network"]["zones"], start=1)])
    elif place.zones:
        raise NewError(f"--zone is invalid: {example} has an existing VPC. Fix: edit network.existing of the new file")
    for key, part in (("cluster_name", document["hyperpod"]), ("repository", document.get("image", {}))):
        if key in part:
            pattern = document.get("company", {}).get("name_pattern", "").replace("{project}", document["project"])
            part[key] = _renamed(part[key], example, name, pattern)
    return document


def _renamed(stated: str, example: str, name: str, pattern: str) -> str:
    """Return the physical name in environment `name` for the one that the example states, by the company's pattern."""
    before, now = (pattern.partition("{name}")[0].replace("{environment}", each) for each in (example, name))
    if before != now and stated.startswith(before):
        return now + stated.removeprefix(before)
    return f"{stated.removesuffix(f'-{example}')}-{name}"


def target(name: str, directory: Path = DIRECTORY) -> Path:
    """Return the file of a new environment. Raises NewError if the name is in use or not allowed."""
    allowed = allowed_at(("name",))
    if allowed.shape and not re.match(str(allowed.shape.pattern), name):
        raise NewError(
            f"name {name!r} is invalid: it has another form. Allowed: {allowed.text}. Fix: {allowed.shape.fix}"
        )
    file = directory / f"{name}.yaml"
    if file.exists():
        raise NewError(f"{file} exists already. Fix: choose another name, or edit the file")
    return file


def write(document: CommentedMap, file: Path, title: str) -> list[str]:
    """Write the document under a comment line; return the remaining placeholders, each once."""
    text = StringIO()
    _yaml().dump(document, text)
    body = text.getvalue().replace("--env NAME", f"--env {file.stem}")
    # `create`: an environment that somebody created meanwhile is not overwritten.
    files.create(file, f"{_SCHEMA_LINE}# {title}\n{body}")
    return sorted(set(_PLACEHOLDER.findall(body)))


def _free_block(directory: Path) -> str:
    """Return a /16 that no other environment has (10.192.0.0/16 is the default), so that VPCs can be connected."""
    taken = "\n".join(path.read_text(errors="replace") for path in directory.glob("*.yaml"))
    return next((block for block in (f"10.{n}.0.0/16" for n in range(193, 256)) if block not in taken), "${VPC_CIDR}")


def _flow(items: Sequence[Any]) -> CommentedSeq:
    sequence = CommentedSeq(items)
    sequence.fa.set_flow_style()
    return sequence


def _yaml() -> YAML:
    yaml = YAML()
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.preserve_quotes = True
    return yaml
