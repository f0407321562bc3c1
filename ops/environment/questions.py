"""Ask a person at a terminal for the values of a new environment that its command line lacks."""

import re
from typing import Any

import typer

from ops.cli import report
from ops.environment import new
from ops.sign_of_life import SILENCE


def answered(like: str | None, name: str, given: new.Given) -> dict[str, Any]:
    """Return `given` with the person's answers; an empty answer keeps what the file then states.

    Raises typer.Abort on Ctrl-C and at the end of the input.
    """
    values = dict(given)
    for key, asked in new.INPUTS.items():
        document = new.document_of(like, name, values)
        kept = new.value_of(document, key)
        if key in values or kept is None:
            continue
        stated = kept if isinstance(kept, str) else " ".join(kept)
        text = f"{asked.question} (Enter: {'fill in later' if '${' in stated else f'keep {stated}'})"
        while answer := _answer(text):
            attempt = values | {key: answer if isinstance(kept, str) else re.split(r",?\s+", answer)}
            found = new.refused(like, name, attempt)
            if not found:
                values = attempt
                break
            report(found)
    return values


def _answer(text: str) -> str:
    with SILENCE.wanted():
        answer: str = typer.prompt(text, default="", show_default=False, err=True)
    return answer.strip()
