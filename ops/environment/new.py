"""Write the files of `ops new` and `ops import`: commented, with physical names that no other environment has."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter

from config.findings import Finding, Severity
from config.load import DIRECTORY, EXAMPLES, examples, validated
from config.reading.declared import allowed_at
from config.reading.strict_yaml import needs_quotes
from config.suggest import did_you_mean
from ops import files

_TEMPLATE: Final = Path(__file__).with_name("new_environment.yaml")
_SCHEMA_LINE: Final = "# yaml-language-server: $schema=schema.json\n"
_PLACEHOLDER: Final = re.compile(r"\$\{\w+\}")


class NewError(Exception):
    """The file cannot be written; `str()` says why."""


@dataclass(frozen=True)
class Input:
    """A value that `ops new` takes: its option, and the question for it."""

    option: str
    question: str


INPUTS: Final[Mapping[str, Input]] = {
    "account": Input("--account", "AWS account id, such as 111122223333"),
    "region": Input("--region", "AWS region, such as us-west-2"),
    "network.zones": Input("--zone", "Two or three zone ids, nodes in the first, such as usw2-az2 usw2-az1"),
    "access.admins": Input(
        "--admin",
        "ARNs of IAM roles that administer Kubernetes, such as arn:aws:iam::111122223333:role/PlatformAdmin",
    ),
    "eks.public_access_cidrs": Input(
        "--cidr", "Public addresses of your office or VPN, which may reach the Kubernetes API, such as 203.0.113.0/24"
    ),
}
"""The inputs by their keys in the environment file, in the order of the questions."""

_NOT_TAKEN: Final = {
    "access.admins": ("creates no Kubernetes cluster", "leave out --admin"),
    "network.zones": ("has an existing VPC", "edit network.existing of the new file"),
    "eks.public_access_cidrs": ("creates no EKS cluster", "leave out --cidr"),
}
"""Why an example has no place for an input, and what to do instead."""

Given = Mapping[str, Any]
"""Some of the values of INPUTS, by their keys: text, or a list of texts."""


def document_of(like: str | None, name: str, given: Given) -> CommentedMap:
    """Return the document of environment `name`: the copy of an example, or the template."""
    return copy_of(like, name, given) if like else template(name, given)


def template(name: str, given: Given, directory: Path = DIRECTORY) -> CommentedMap:
    """Return the document of a new environment `name`; placeholders stand for what is not given."""
    document: CommentedMap = _yaml().load(_TEMPLATE)
    if "region" in given:
        document["network"]["zones"] = _flow(["${ZONE_ID_1}", "${ZONE_ID_2}"])
    document["network"]["vpc_cidr"] = _free_block(directory)
    document["hyperpod"]["cluster_name"] += f"-{name}"
    document["image"]["repository"] += f"-{name}"
    _put(document, given)
    return document


def copy_of(example: str, name: str, given: Given, directory: Path = DIRECTORY) -> CommentedMap:
    """Return an example's document, comments included, with the given values and the names of environment `name`."""
    if example not in examples():
        allowed, fix = ", ".join(examples()), did_you_mean(example, examples())
        raise NewError(f"--like: {example!r} is invalid: there is no such example. Allowed: {allowed}. Fix: {fix}")
    text = (EXAMPLES / f"{example}.yaml").read_text().partition("\n")[2]
    stated = _yaml().load(text)
    # ARNs and registries contain both, too.
    for key in ("account", "region"):
        text = text.replace(stated[key], given.get(key, stated[key]))
    document: CommentedMap = _yaml().load(text)
    network = document["network"]
    if given.get("region", stated["region"]) != stated["region"]:
        _forget_zones(network)
    if "existing" not in network:
        network["vpc_cidr"] = _free_block(directory)
    for key, part in (("cluster_name", document["hyperpod"]), ("repository", document.get("image", {}))):
        if key in part:
            pattern = document.get("company", {}).get("name_pattern", "").replace("{project}", document["project"])
            part[key] = _renamed(part[key], example, name, pattern)
    _put(document, given)
    return document


def refused(like: str | None, name: str, given: Given) -> list[Finding]:
    """Return what `ops check` refuses about the given values; each error names the option instead of a key."""
    document = document_of(like, name, {})
    for key, (reason, fix) in _NOT_TAKEN.items():
        if key in given and value_of(document, key) is None:
            raise NewError(f"{INPUTS[key].option} is invalid: {like} {reason}. Fix: {fix}")
    values: dict[str, Any] = {"region": document["region"]} | ({"slurm": {}} if "slurm" in document else {})
    for key, value in given.items():
        *section, last = key.split(".")
        readable = [_readable(item) for item in value] if isinstance(value, list) else _readable(value)
        (values.setdefault(section[0], {}) if section else values)[last] = readable
    return [
        finding._replace(label=INPUTS[key].option)
        for finding in validated(values, name)[1]
        for key in given
        if f"{finding.key}.".startswith(f"{key}.") and finding.severity is Severity.ERROR
    ]


def value_of(document: Mapping[str, Any], key: str) -> Any:
    """Return the document's value at a key of INPUTS, or None."""
    section, _, last = key.rpartition(".")
    return (document.get(section, {}) if section else document).get(last)


def forget_account(document: CommentedMap) -> None:
    """Replace the account by a placeholder."""
    _put(document, {"account": "${ACCOUNT_ID}"})


def _readable(text: str) -> str:
    """Return the text with a question mark for each byte that is no UTF-8: JSON cannot state such a byte."""
    return text.encode(errors="replace").decode()


def _put(document: CommentedMap, given: Given) -> None:
    for key, value in given.items():
        section, _, last = key.rpartition(".")
        part = document.setdefault(section, CommentedMap()) if section else document
        if key == "eks.public_access_cidrs":
            # Python also accepts an address without a length, and netmasks; EKS does not.
            part[last] = _flow(dict.fromkeys(str(IPv4Network(block)) for block in value))
        else:
            part[last] = _flow(value) if isinstance(value, list) else type(part[last])(value)


def _forget_zones(network: CommentedMap) -> None:
    """Replace each zone of the network by a placeholder."""
    if existing := network.get("existing"):
        subnets = [*existing["node_subnets"], *existing["control_plane_subnets"]]
        numbers = {zone: n for n, zone in enumerate(dict.fromkeys(each["zone"] for each in subnets), start=1)}
        for subnet in subnets:
            subnet["zone"] = f"${{ZONE_ID_{numbers[subnet['zone']]}}}"
    else:
        network["zones"] = _flow(f"${{ZONE_ID_{n}}}" for n, _ in enumerate(network["zones"], start=1))


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


def _flow(items: Iterable[Any]) -> CommentedSeq:
    sequence = CommentedSeq(items)
    sequence.fa.set_flow_style()
    return sequence


class _Representer(RoundTripRepresenter):
    """Quotes what `ops check` would refuse without quotes."""

    def represent_str(self, data: str) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if needs_quotes(data) else None)


_Representer.add_representer(str, _Representer.represent_str)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.preserve_quotes = True
    return yaml
