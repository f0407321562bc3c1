"""Check that findings have the one form, and count lines independently of the product's YAML reader."""

import copy
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from config.findings import Finding, Severity, place_of

FORM = re.compile(
    r"(?P<file>\S+?)(:(?P<line>\d+))?( (?P<key>[^:]+))?: (?P<value>.+?) (is invalid|is risky): (?P<reason>.+?)\. "
    r"(Allowed|Advised): (?P<allowed>.+?)\. Fix: (?P<fix>.+?)[.?]( \[(?P<rule>V\d+)\])?"
)


def assert_whole(finding: Finding) -> None:
    """Assert that every part of the finding is readable text, and that none is a regular expression."""
    said = str(finding)
    assert FORM.fullmatch(said), said
    assert all((finding.value, finding.reason, finding.allowed, finding.fix)), said
    assert not re.search(r"\[a-z|\[0-9|\^|\{\d", said.replace("{V54: REASON}", "")), said
    assert "\n" not in said
    assert ("Advised" in said) == (finding.severity is Severity.WARNING)


# A fix that names a value, alone or after its key: the value ends where other ways follow.
_NAMED = re.compile(
    r"(?:write|use) (?:it in quotes: |it without quotes: )?(?!the |a |an |one |its |it |some |another |such |true or )"
    r"(?P<text>(?:[a-z_]+: )?\"?[\w./:-]+\"?)(?=$|[,;]| or | to )|did you mean '(?P<guess>[^']+)'\?.*"
)


def with_fix(document: Any, finding: Finding) -> Any | None:
    """Return the document with the value or key that the finding's fix names, or None if it names none."""
    if not (found := _NAMED.match(finding.fix)):
        return None
    document = copy.deepcopy(document)
    *way, last = place_of(finding.key, document)
    parent = document
    for part in way:
        parent = parent[part]
    if found["guess"] and finding.value.startswith("key "):
        parent[found["guess"]] = parent.pop(last)
        return document
    value = found["guess"] or yaml.safe_load(found["text"])
    if isinstance(value, dict):
        [(key, value)] = value.items()
        if key != last:
            parent, last = parent[last], key
    parent[last] = value
    return document


# The fixes of type errors, each with the values that it names, as a file writes them.
_NAMED_VALUES = tuple(
    (re.compile(fix), values)
    for fix, values in (
        (r'.*such as ("[^"]+")', lambda found, _: [found[1]]),
        (r"write it (?:in|without) quotes: (\S+)", lambda found, _: [found[1]]),
        (r"write (?:`true` or `false`)", lambda *_: ["true", "false"]),
        (r"write some text|put it in quotes", lambda *_: ['"some text"']),
        (r"write (?:an IPv4 block such as )?([^ ]+)", lambda found, _: [found[1]]),
        (r"did you mean '(.+)'\?", lambda found, _: [found[1]]),
        (r"choose one of them", lambda _, allowed: allowed.split(", ")),
        (r"write a whole number|raise it|lower it", lambda _, allowed: re.findall(r"[-\d]+", allowed) or ["1"]),
        (r".*", lambda _, allowed: [f'"{example}"' for example in re.findall(r", such as (.+)$", allowed)]),
    )
)


def values_of_fix(finding: Finding) -> list[str]:
    """Return the values that a type error's fix names, as a file writes them; the allowed ones if it names a set."""
    for fix, values in _NAMED_VALUES:
        if found := fix.fullmatch(finding.fix):
            return values(found, finding.allowed)
    raise ValueError(finding)


def line_of(file: Path, place: Sequence[int | str]) -> int:
    """Return the line of a key or an item, or of the nearest one above it, according to PyYAML's node tree."""
    found, node = 1, yaml.compose(file.read_text(), Loader=yaml.CSafeLoader)
    for part in place:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
        elif isinstance(node, yaml.SequenceNode):
            pairs = {number: (item, item) for number, item in enumerate(node.value)}
        else:
            break
        if part not in pairs:
            break
        at, node = pairs[part]
        found = at.start_mark.line + 1
    return found


def write(file: Path, document: Any) -> Path:
    """Write a document with one line for each key."""
    file.write_text(
        yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, width=10_000, default_flow_style=False)
    )
    return file
