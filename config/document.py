"""Reads a YAML file of plain values strictly: what YAML's versions read differently is refused, with its line.

YAML 1.1 and 1.2 disagree on `no`, `010`, `1:30` and more, and editors, schemas and other tools read either. A file
that all of them read alike needs neither those nor anchors, tags and directives.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from config.findings import Finding

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 32

_PLAIN: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# Python refuses to read longer ones, and no key takes one.
_MAX_DIGITS: Final = 20
# What a plain text looks like that some reader takes for something else, and what to write instead.
_TRAPS: Final = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"(?i:yes|no|on|off|y|n)", "is text to some readers of YAML and true or false to others: write true or false"),
        (r"(?i:null|true|false)", "has another spelling: write it in small letters"),
        (r"[-+]?0[0-9_]+", "is octal to some readers of YAML: write the number without leading zeros"),
        (r"[-+]?0[box][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_]*", "is a number to some readers only: write its digits"),
        (r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?", "is a number of base 60 to some readers of YAML"),
        (r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?", "is a date to some readers of YAML"),
        (r"[-+]?\.(?i:inf|nan)", "is no number that a key takes"),
        (r"=|<<", "has a meaning of its own in YAML"),
    )
)


class NotReadable(Exception):
    """The file is not such a document; `findings` say why."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("; ".join(map(str, findings)))


def read(file: Path) -> dict[str, Any]:
    """Return the file's mapping: texts, whole numbers, decimal fractions, true and false, null, lists and mappings.

    Raises NotReadable with everything that is wrong; an error of syntax ends the search.
    """
    text = _text(file)
    reader = _Reader(text)
    document = reader.document()
    if not reader.findings and not isinstance(document, dict):
        reader.note(1, "must be a YAML mapping of keys to values")
    if reader.findings:
        raise NotReadable(reader.findings)
    return dict(document)


def _text(file: Path) -> str:
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise NotReadable([Finding("", f"{size:,} bytes; allowed: {MAX_BYTES:,}, far more than an environment needs")])
    content = file.read_bytes()
    try:
        # A byte order mark is what some editors begin a file with.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise NotReadable([Finding("", f"line {line}: {byte}")]) from None


class _Reader:
    """Makes values of the parser's events. `findings` collects what is refused though the parser takes it."""

    def __init__(self, text: str) -> None:
        self.findings: list[Finding] = []
        self._text = text
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))

    def note(self, line: int, message: str) -> None:
        self.findings.append(Finding("", f"line {line}: {message}"))

    def document(self) -> Any:
        try:
            return self._document()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            self.note(mark.line + 1 if mark else 1, self._problem(error, mark))
        except yaml.reader.ReaderError as error:
            line = self._text.count("\n", 0, error.position) + 1
            self.note(line, f"character U+{error.character:04X} is not allowed in YAML")
        return None

    def _problem(self, error: yaml.MarkedYAMLError, mark: Any) -> str:
        lines = self._text.splitlines()
        line = lines[mark.line] if mark and mark.line < len(lines) else ""
        if line[: len(line) - len(line.lstrip())].count("\t"):
            return "a tab cannot indent YAML; use spaces"
        return f"not YAML: {error.problem}"

    def _document(self) -> Any:
        documents: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version or event.tags:
                    self.note(1, "directives (%YAML, %TAG) are not allowed")
                if documents:
                    self.note(_line(event), "a second document (---) begins; allowed: one")
                documents.append(self._value(next(self._events), 0))
        if not documents:
            self.note(1, "the file is empty; it must be a YAML mapping of keys to values")
        return documents[0] if documents else None

    def _value(self, event: yaml.Event, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self.note(_line(event), f"nested more than {MAX_DEPTH} deep")
            raise NotReadable(self.findings)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if event.anchor:
                self.note(
                    _line(event), f"anchor &{event.anchor} is not allowed; write the value out where it is needed"
                )
            # Quotes alone are the tag "!" to the parser.
            if event.tag not in {None, "!"}:
                self.note(_line(event), f"tag {event.tag} is not allowed")
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(depth)
            case yaml.SequenceStartEvent():
                return list(self._items(depth))
            case yaml.ScalarEvent():
                return self._scalar(event)
            case _:
                self.note(_line(event), "an alias (*) is not allowed; write the value out")
                return None

    def _items(self, depth: int) -> Iterator[Any]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._value(event, depth + 1)

    def _mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                said = repr(key) if isinstance(key, int | float) else "this key"
                self.note(line, f"{said} is not text; keys are text: put it in quotes where it is meant")
                key = str(key)
            elif key in mapping:
                self.note(line, f"key {key!r} stands here twice")
            mapping[key] = self._value(next(self._events), depth + 1)
        return mapping

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text: str = event.value
        if event.style:
            return text
        if text in _PLAIN:
            return _PLAIN[text]
        if _DECIMAL.fullmatch(text) and len(text) <= _MAX_DIGITS:
            return int(text)
        for trap, advice in _TRAPS:
            if trap.fullmatch(text):
                self.note(_line(event), f"{text} {advice}; put it in quotes where text is meant")
                return text
        if _FLOAT.fullmatch(text) and len(text) <= _MAX_DIGITS:
            return float(text)
        return text


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
