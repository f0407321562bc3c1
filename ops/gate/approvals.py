"""Read the approvals of an environment: reviewed entries in `environments/approvals/<environment>.yaml`.

```yaml
approvals:
  - stack: "storage"
    resource: "AWS::FSx::FileSystem FileSystem"
    change: data-loss
    digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    reason: the training data is in the bucket, and a new file system imports it
    expires: "2026-12-31"
```

With `removable_nodes: 4` beside `approvals`, later changes may remove four nodes or worker pods without an approval.
`ops gate` and the review print an entry for each change that needs one. An entry for a removed environment has no
stack.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from config.findings import Finding, in_words
from config.reading import strict_yaml
from ops.review.checkouts.inputs import APPROVALS, ENVIRONMENTS, REMOVABLE, is_removable
from ops.review.model import Danger

_KEYS: Final = ("stack", "resource", "change", "digest", "reason", "expires")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TOP: Final = "approvals"
_WORDS: Final = 3
"""Fewer are a placeholder such as WHY, or approve without a reason."""


@dataclass(frozen=True)
class Approval:
    """One entry: a danger of one change that somebody accepted."""

    stack: str
    """Empty for what is in no stack."""
    resource: str
    change: Danger
    digest: str
    reason: str
    expires: date
    """The last day on which it holds."""
    file: Path
    line: int


class ApprovalsError(Exception):
    """An approvals file has errors; `findings` lists them."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("\n".join(map(str, findings)))


def read(checkout: Path, environment: str) -> list[Approval]:
    """Return the approvals of an environment; none if it has no file.

    Raises ApprovalsError with all errors of the file.
    """
    file = checkout / ENVIRONMENTS / APPROVALS / f"{environment}.yaml"
    if not file.exists():
        return []
    try:
        document = strict_yaml.read(file)
    except strict_yaml.UnreadableFileError as error:
        raise ApprovalsError(error.findings) from error
    except OSError as error:
        cause = f"it cannot be read: {error.strerror}"
        found = Finding("", "the file", cause, "a file that you may read", "check its permissions", file=file)
        raise ApprovalsError([found]) from error
    findings: list[Finding] = []
    approvals = list(_entries(file, document, findings))
    findings += _duplicates(approvals)
    if findings:
        raise ApprovalsError(findings)
    return approvals


def misplaced(checkout: Path, environments: list[str]) -> list[Finding]:
    """Return an error for each file in the folder that belongs to no environment: nobody would read it."""
    folder = checkout / ENVIRONMENTS / APPROVALS
    allowed = ", ".join(f"{name}.yaml" for name in environments) or "no file"
    return [
        Finding("", f"file {file.name!r}", "no environment has this name", allowed, "rename or remove it", file=file)
        for file in sorted(folder.glob("*"))
        if file.suffix != ".yaml" or file.stem not in environments
    ]


def _entries(file: Path, document: strict_yaml.YamlDocument, findings: list[Finding]) -> Iterator[Approval]:
    removable = document.values.get(REMOVABLE, 0)
    entries = document.values.get(_TOP, [] if REMOVABLE in document.values else None)
    for key in document.values.keys() - {_TOP, REMOVABLE}:
        line, allowed = document.line((key,)), f"{_TOP}, {REMOVABLE}"
        findings.append(Finding(key, repr(key), "the key is unknown", allowed, "remove it", file=file, line=line))
    if not is_removable(removable):
        line, wrong, fix = document.line((REMOVABLE,)), in_words(removable), "write a number, or remove it"
        reason, allowed = "it is no number of nodes", "a whole number from 0 on"
        findings.append(Finding(REMOVABLE, wrong, reason, allowed, fix, file=file, line=line))
    if not isinstance(entries, list):
        line = document.line((_TOP,))
        wrong = in_words(entries)
        findings.append(Finding(_TOP, wrong, "it is no list", "a list", "write a list", file=file, line=line))
        return
    for number, entry in enumerate(entries):
        line = document.line((_TOP, number))
        place = f"{_TOP}.{number}"
        if not isinstance(entry, dict):
            wanted = f"a mapping with {', '.join(_KEYS)}"
            found = Finding(place, in_words(entry), "it is no mapping", wanted, "write a mapping", file=file, line=line)
            findings.append(found)
        elif mistakes := list(_wrong(file, document, number, entry)):
            findings += mistakes
        else:
            expires = date.fromisoformat(entry["expires"])
            stack, danger = entry.get("stack", ""), Danger(entry["change"])
            yield Approval(stack, entry["resource"], danger, entry["digest"], entry["reason"], expires, file, line)


def _wrong(file: Path, document: strict_yaml.YamlDocument, number: int, entry: dict[str, object]) -> Iterator[Finding]:
    def finding(key: str, reason: str, allowed: str, fix: str) -> Finding:
        line = document.line((_TOP, number, key))
        where = f"{_TOP}.{number}.{key}"
        return Finding(where, in_words(entry.get(key)), reason, allowed, fix, file=file, line=line)

    for key in entry.keys() - set(_KEYS):
        yield finding(key, "the key is unknown", ", ".join(_KEYS), "remove it")
    for key in _KEYS if "stack" in entry else _KEYS[1:]:
        value = entry.get(key)
        if not isinstance(value, str) or not value.strip():
            yield finding(key, "it must be a text", "a text that is not empty", f"write {key}")
        elif key == "change" and value not in set(Danger):
            yield finding(key, "no change has this name", ", ".join(Danger), "copy it from `ops gate`")
        elif key == "digest" and not _DIGEST.fullmatch(value):
            yield finding(key, "it is no digest of a change", "64 hexadecimal digits", "copy it from `ops gate`")
        elif key == "reason" and len(value.split()) < _WORDS:
            yield finding(key, "it says too little", f"at least {_WORDS} words", "write why the change is acceptable")
        elif key == "expires" and not _is_date(value):
            yield finding(key, "it is no date", 'a date such as "2026-12-31"', "write the last day on which it holds")


def _duplicates(approvals: list[Approval]) -> Iterator[Finding]:
    """Yield an error for each entry that approves what an earlier one approves: which reason and day would hold?"""
    first: dict[tuple[str, str, Danger, str], Approval] = {}
    for each in approvals:
        known = first.setdefault((each.stack, each.resource, each.change, each.digest), each)
        if known is not each:
            name, reason = f"the approval of {each.change} for {each.resource}", f"line {known.line} approves the same"
            yield Finding(_TOP, name, reason, "one entry", "remove one of them", file=each.file, line=each.line)


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
