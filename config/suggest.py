"""Guess what a person meant. Imported only after an error, so that valid files load faster."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

# Least ratio of difflib: low enough for a word of which one half is right (`heads` for `head-group`).
_LEAST: Final = 0.5


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to `word`, or None. Case and separators are ignored."""
    by_plain = {plain(each): each for each in known}
    found = get_close_matches(plain(word), by_plain, n=1, cutoff=_LEAST)
    return by_plain[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "choose one of them") -> str:
    """Return the fix for an unknown word: a guess, or `otherwise`."""
    guess = closest(word, known)
    return f"did you mean {guess!r}?" if guess else otherwise


def plain(word: str) -> str:
    """Return the word in lower case without separators."""
    return re.sub(r"[^a-z0-9]", "", word.lower())
