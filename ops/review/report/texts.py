"""Quote texts from files and templates, so that they neither break a page nor mention people nor hide anything."""

import html
import re
import unicodedata
from functools import cache
from typing import Final

# Renovate puts it behind `@` and `#`: GitHub then sees no mention and no reference.
_BREAK: Final = "&#8203;"
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]|~])")
_CODE: Final = re.compile(r"`([^`]+)`")
_UNUSUAL: Final = re.compile(r"[^\n\t -~]")
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories: control, format, surrogate, line and paragraph separator."""


def visible(text: str) -> str:
    r"""Return the text with control characters, and those that reorder or hide text, as `\u202e`."""
    return _UNUSUAL.sub(lambda found: _shown(found[0]), text)


def line(text: str) -> str:
    """Return the text on one line."""
    return visible(" ".join(text.split()))


def parts(text: str) -> list[tuple[str, bool]]:
    """Return the pieces of a line, each with whether it is code, which stood between backticks."""
    pieces = _CODE.split(line(text))
    return [(piece, bool(number % 2)) for number, piece in enumerate(pieces) if piece]


# A comment that does not fit is drawn again, up to a dozen times, with nearly the same texts.
@cache
def markdown(text: str, *, in_table: bool = False) -> str:
    """Return Markdown that shows the text on one line; what stands between backticks is code."""
    return "".join(_code(piece, in_table=in_table) if code else _prose(piece) for piece, code in parts(text))


def markup(text: str) -> str:
    """Return HTML that shows the text on one line; what stands between backticks is code."""
    return "".join(f"<code>{html.escape(piece)}</code>" if code else html.escape(piece) for piece, code in parts(text))


def summary(text: str) -> str:
    """Return HTML for a title inside Markdown."""
    return _without_references(html.escape(line(text)))


def fenced(diff: str, language: str = "diff") -> str:
    """Return a block of code in Markdown; its fence is longer than any in the text."""
    shown = visible(diff.replace("\r\n", "\n")).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}"


def _shown(character: str) -> str:
    return rf"\u{ord(character):04x}" if unicodedata.category(character) in _HIDDEN else character


def _prose(text: str) -> str:
    escaped = _MARKDOWN.sub(r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _without_references(escaped)


def _without_references(text: str) -> str:
    """Return Markdown or HTML in which GitHub sees no mention, no issue and no address."""
    # `$x$` would be a formula.
    text = re.sub(r"@|#(?=\d)|\$(?! )", rf"\g<0>{_BREAK}", text)
    text = re.sub(r"(?i)\b(https?|ftp):(?=//)", rf"\1:{_BREAK}", text)
    return re.sub(r"(?i)\bwww(?=\.)|\bGH(?=-\d)", rf"\g<0>{_BREAK}", text)


def _code(text: str, *, in_table: bool) -> str:
    # A cell ends at each `|`, even in code, unless a backslash escapes it. Code cannot show a backslash before it.
    if in_table and r"\|" in text:
        return _prose(text)
    escaped = text.replace("|", r"\|") if in_table else text
    return f"`{escaped}`"
