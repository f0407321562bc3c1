"""Guesses what a person meant. Imported only once something is wrong."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

# Of difflib's ratio: low enough for a word of which one half is right (`heads` for `head-group`).
_LEAST: Final = 0.5


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like `word`, None when none is; case and separators do not count."""
    plain = {_plain(each): each for each in known}
    found = get_close_matches(_plain(word), plain, n=1, cutoff=_LEAST)
    return plain[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "choose one of them") -> str:
    """Return the fix for a word that is not one of the known."""
    guess = closest(word, known)
    return f"did you mean {guess!r}?" if guess else otherwise


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())
