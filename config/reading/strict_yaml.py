"""Read a YAML file of plain values, and refuse values that versions of YAML read differently.

YAML 1.1 and 1.2 disagree on `no`, `010`, `1:30` and more, and editors, schemas and other tools read either. A file
that all of them read alike needs neither those values nor anchors, tags and directives.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from config.findings import HIDDEN, Finding, Place, may_be_secret

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 32

_PLAIN: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# Python refuses to read longer numbers, and no key takes one.
_MAX_DIGITS: Final = 20
_ALIKE: Final = "values that every reader of YAML reads alike"
_MAPPING: Final = "a YAML mapping of keys to values"
_QUOTES: Final = "put it in quotes if text is meant"
# Patterns of plain text that some reader takes for something else, each with the reason and what to write instead.
_TRAPS: Final = tuple(
    (re.compile(pattern), reason, fix)
    for pattern, reason, fix in (
        (
            r"(?i:yes|no|on|off|y|n)",
            "it is text to some readers of YAML and true or false to others",
            "write true or false",
        ),
        (
            r"(?i:null|true|false)",
            "some readers of YAML know only the spelling in lowercase",
            "write it in lowercase",
        ),
        (r"[-+]?0[0-9_]+", "it is octal to some readers of YAML", "write the number without leading zeros"),
        (
            r"[-+]?0[box][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_]*",
            "it is a number to some readers of YAML only",
            "write its digits",
        ),
        (
            r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?",
            "it is a number of base 60 to some readers of YAML",
            "write its digits",
        ),
        (r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?", "it is a date to some readers of YAML", ""),
        (r"[-+]?\.(?i:inf|nan)", "no key takes such a number", "write another number"),
        (r"=|<<", "it has a meaning of its own in YAML", ""),
    )
)


class YamlDocument(NamedTuple):
    """A file's mapping: texts, whole numbers, fractions, true and false, null, lists and mappings, and their lines."""

    values: dict[str, Any]
    lines: Mapping[Place, int]
    spellings: Mapping[Place, str]
    """Numbers as the file writes them, if Python writes them otherwise: 1.30."""

    def line(self, place: Place) -> int:
        """Return the line of the value; of the mapping that should contain it, if it is missing."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


class UnreadableFileError(Exception):
    """The file is not a document of plain values; `findings` say why."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("; ".join(map(str, findings)))


def needs_quotes(text: str) -> bool:
    """Return whether some reader of YAML takes the plain text for something else."""
    return any(pattern.fullmatch(text) for pattern, _, _ in _TRAPS)


def read(file: Path, advice: Callable[[Place, str], tuple[str, str] | None] = lambda *_: None) -> YamlDocument:
    """Return the file's document.

    Raises UnreadableFileError with all errors; an error of syntax ends the search.

    Args:
        file: The file.
        advice: Returns what a place allows, and what to write there instead of a text that readers of YAML disagree
            on; None if the place is unknown.
    """
    reader = _Reader(file, advice)
    values = reader.values()
    if not reader.findings and not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else "a single value"
        reader.note(1, "the document", f"it is {kind}", _MAPPING, "write `key: value` lines")
    if reader.findings:
        raise UnreadableFileError(reader.findings)
    return YamlDocument(dict(values), reader.lines, reader.spellings)


class _Reader:
    """Build values from the parser's events; `findings` collects what is refused although the parser accepts it."""

    def __init__(self, file: Path, advice: Callable[[Place, str], tuple[str, str] | None]) -> None:
        self.findings: list[Finding] = []
        self.lines: dict[Place, int] = {}
        self.spellings: dict[Place, str] = {}
        self._advice = advice
        self._file = file
        self._place: Place = ()
        self._text = self._read()
        self._events: Iterator[yaml.Event] = yaml.parse(
            self._text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        )

    def note(self, line: int, value: str, reason: str, allowed: str, fix: str) -> None:
        key = ".".join(map(str, self._place))
        self.findings.append(Finding(key, value, reason, allowed, fix, file=self._file, line=line))

    def values(self) -> Any:
        try:
            return self._document()
        except yaml.MarkedYAMLError as error:
            self._place = ()
            self._syntax(error)
        except yaml.reader.ReaderError as error:
            self._place = ()
            line = self._text.count("\n", 0, error.position) + 1
            shown = f"character U+{error.character:04X}"
            self.note(line, shown, "YAML does not allow it", "printable characters", "delete it, or retype the line")
        return None

    def _read(self) -> str:
        size = self._file.stat().st_size
        if size > MAX_BYTES:
            self.note(
                0,
                f"a file of {size:,} bytes",
                "no environment file needs so many",
                f"{MAX_BYTES:,} bytes",
                "shorten it",
            )
            raise UnreadableFileError(self.findings)
        content = self._file.read_bytes()
        try:
            # Some editors begin a file with a byte order mark.
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            shown = f"byte 0x{content[error.start]:02x}"
            self.note(line, shown, "it is not UTF-8", "text in UTF-8", "save the file as UTF-8")
            raise UnreadableFileError(self.findings) from None

    def _syntax(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark
        lines = self._text.splitlines()
        line = lines[mark.line] if mark and mark.line < len(lines) else ""
        number = mark.line + 1 if mark else 1
        if line[: len(line) - len(line.lstrip())].count("\t"):
            self.note(number, "the indentation", "a tab cannot indent YAML", "spaces", "replace the tab with spaces")
        else:
            advice = "close quotes and brackets, and put text with `: ` or ` #` in quotes"
            self.note(number, "the syntax", f"not YAML: {error.problem}", _MAPPING, advice)

    def _document(self) -> Any:
        documents: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version or event.tags:
                    self.note(
                        1, "a directive", "not every reader obeys it", _MAPPING, "delete the lines that begin with %"
                    )
                if documents:
                    self.note(_line(event), "a second document", "only one is read", _MAPPING, "delete the line `---`")
                documents.append(self._value(next(self._events), 0))
        if not documents:
            self.note(1, "the file", "it is empty", _MAPPING, "write `key: value` lines, or run `ops new NAME`")
        return documents[0] if documents else None

    def _value(self, event: yaml.Event, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self.note(_line(event), "this nesting", "it is too deep", f"{MAX_DEPTH} levels", "remove levels")
            raise UnreadableFileError(self.findings)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if event.anchor:
                self._plainly(event, f"anchor &{event.anchor}", "it hides what a diff of two files should show")
            # Quotes alone are the tag "!" to the parser.
            if event.tag not in {None, "!"}:
                self._plainly(event, f"tag {event.tag}", "readers of YAML know different tags")
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(depth)
            case yaml.SequenceStartEvent():
                return self._items(depth)
            case yaml.ScalarEvent():
                return self._scalar(event)
            case _:
                self._plainly(event, "an alias (*)", "it hides what a diff of two files should show")
                return None

    def _plainly(self, event: yaml.Event, value: str, reason: str) -> None:
        self.note(_line(event), value, reason, "plain values", "write the value in full wherever it is needed")

    def _items(self, depth: int) -> list[Any]:
        items: list[Any] = []
        here = self._place
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._place = (*here, len(items))
            self.lines[self._place] = _line(event)
            items.append(self._value(event, depth + 1))
        self._place = here
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        here = self._place
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                shown = f"key {key!r}" if isinstance(key, int | float) else "this key"
                self.note(line, shown, "it is not text", "keys that are text", "put it in quotes")
                key = str(key)
            self._place = (*here, key)
            if key in mapping:
                first = self.lines[self._place]
                shown = f"key {key!r}"
                self.note(line, shown, f"line {first} has the same key", "each key once", "delete one of the two")
            self.lines[self._place] = line
            mapping[key] = self._value(next(self._events), depth + 1)
            self._place = here
        return mapping

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text: str = event.value
        if event.style:
            return text
        if text in _PLAIN:
            return _PLAIN[text]
        if _DECIMAL.fullmatch(text) and len(text) <= _MAX_DIGITS:
            return int(text)
        for trap, reason, fix in _TRAPS:
            if trap.fullmatch(text):
                shown = HIDDEN if may_be_secret(self._place) else text
                general = _ALIKE, f"{fix}, or {_QUOTES}" if fix else _QUOTES
                self.note(_line(event), shown, reason, *(self._advice(self._place, text) or general))
                return text
        if _FLOAT.fullmatch(text) and len(text) <= _MAX_DIGITS:
            number = float(text)
            if str(number) != text:
                self.spellings[self._place] = text
            return number
        return text


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
