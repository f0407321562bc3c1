"""The form of error messages, and what breaks it."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.messages.texts import PASSED, Message

STATEMENT: Final = re.compile(r"(?s)(?P<what>.+?)\. (Allowed: (?P<allowed>.+?)(\. Fix: (?P<fix>.+))?|Fix: .+)")
"""An error without a file: what is wrong, then what is allowed, or how to fix it, or both."""
_PART: Final = re.compile(r"(?s)(?!.*(Allowed|Advised|Fix): )(\S(.*[^\s.])?)?")

Exemptions = Mapping[tuple[str, str], str]


def malformed(messages: Iterable[Message], exemptions: Exemptions) -> list[str]:
    """Return the messages that neither have the form nor an exemption, and the exemptions that no message needs."""
    wrong = [each for each in messages if not _is_well_formed(each.text)]
    needed = {place: [each for each in wrong if _is_at(place, each)] for place in exemptions}
    exempt = [each for found in needed.values() for each in found]
    form = "Allowed: WHAT IS WRONG. Allowed: … Fix: … Fix: name what is allowed or how to fix it; quote errors last"
    said = [f"{each} is invalid: a part is missing. {form}" for each in wrong if each not in exempt]
    return said + [
        f"exemption {place} is invalid: no message needs it. Allowed: messages without the form. Fix: delete it"
        for place, found in needed.items()
        if not found
    ]


def _is_well_formed(text: str) -> bool:
    """Tell whether a text has the form itself, or ends with another message; that one must come last."""
    own, passed, rest = text.partition(PASSED)
    return not rest and (bool(passed) or STATEMENT.fullmatch(own) is not None)


def _is_at(place: tuple[str, str], message: Message) -> bool:
    file, beginning = place
    return message.file == Path(file) and message.text.startswith(beginning)


def malformed_parts(parts: Iterable[Message]) -> list[str]:
    """Return the parts of findings that would break the form of the whole."""
    said = "is invalid: it ends with a full stop or a space, or names `Allowed:` or `Fix:` itself"
    allowed = "Allowed: part of a sentence. Fix: rewrite it, as Finding adds what joins the parts"
    return [f"{each} {said}. {allowed}" for each in parts if not _PART.fullmatch(each.text)]


def unknown_classes(known: Collection[str], named: Iterable[str]) -> list[str]:
    """Return the exemptions of exception classes that do not exist."""
    said = "is invalid: there is no such exception class. Allowed: names of classes. Fix: delete the exemption"
    return [f"exemption {name!r} {said}" for name in named if name not in known]
