"""`ops migrate`: rewrite an environment file of an earlier schema for the present one."""

import tempfile
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import yaml

from config import examine
from config.findings import Finding, Place, shown
from config.load import Examined
from config.reading.earlier_schemas import Removal, removals
from config.reading.strict_yaml import YamlDocument
from ops import files


@dataclass(frozen=True)
class Migration:
    """What changes in a file: the keys that are removed, its text before and after, and the errors that remain."""

    file: Path
    removed: list[Removal]
    before: str
    after: str
    errors: list[Finding]

    def described(self) -> list[str]:
        """Return the unified diff, then a line for each removed key: why, and since which version."""
        name = shown(self.file)
        before, after = self.before.splitlines(), self.after.splitlines()
        lines = unified_diff(before, after, f"{name} (now)", f"{name} (migrated)", lineterm="")
        reasons = (f"{_dotted(each.place)}: {each.reason} (since version {each.version})" for each in self.removed)
        return [*lines, *reasons]

    def write(self) -> None:
        """Replace the file as a whole: an interruption leaves the old one or the new one."""
        files.write(self.file, self.after, newline="")


def plan(file: Path, document: YamlDocument) -> Migration | None:
    """Return what changes in the file, whose content is `document`; None if it has the present schema."""
    if not (found := removals(document.values)):
        return None
    with file.open(newline="") as stream:
        before = stream.read()
    after = before
    # From the end, so that the positions of those before stay right.
    spans = sorted((span(before, each.place) for each in found), reverse=True)
    for start, end in spans:
        after = after[:start] + after[end:]
    return Migration(file, found, before, after, _errors(file, after, document))


def _errors(file: Path, text: str, document: YamlDocument) -> list[Finding]:
    """Return the errors of the migrated text, with the lines of the file as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        migrated = Path(folder) / file.name
        migrated.write_text(text)
        found = examine(file.stem, migrated.parent).errors
    now = Examined(file.stem, file, None, [], document)
    return now.located(each._replace(file=None) if each.file == migrated else each for each in found)


def span(text: str, place: Place) -> tuple[int, int]:
    """Return where a key with its value begins and ends in the text, the rest of its line included if it is alone."""
    mapping: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in place[:-1]:
        mapping = _child(mapping, part)
    numbers = {key.value: n for n, (key, _) in enumerate(mapping.value)}
    number = numbers[place[-1]]
    key, value = mapping.value[number]
    start, end = key.start_mark.index, _end(value)
    following = mapping.value[number + 1][0].start_mark.index if number + 1 < len(mapping.value) else None
    if mapping.flow_style:
        if following is not None:
            return start, following
        return (_end(mapping.value[number - 1][1]), end) if number else (start, end)
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end) + 1 or len(text)
    if not text[line_start:start].strip("\ufeff "):
        return line_start + text[line_start:start].count("\ufeff"), line_end
    # The first key of a list's item: the next key takes its place after the hyphen.
    return start, following if following is not None else end


def _end(node: Any) -> int:
    """Return where a value ends. The parser lets a block end where the next key begins, after the comments between."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    end: int = node.end_mark.index
    return end


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))


def _child(node: Any, part: int | str) -> Any:
    if isinstance(part, int):
        return node.value[part]
    return next(value for key, value in node.value if key.value == part)
