"""Every command's help reads well in a terminal of 80 columns, with exit codes and an example that it accepts."""

import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer

from ops.__main__ import app

# Typer indents help by one column on both sides, and wraps only the first paragraph.
WIDTH: Final = 78


def commands(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from commands(below, f"{words} {name}")
    else:
        yield words, command


ROOT: Final = typer.main.get_command(app)
COMMANDS: Final = dict(commands(ROOT, "ops"))


def items(command: Any, heading: str) -> list[str]:
    """Return the items of the list below `Exit codes:` or `Examples:` in the help text."""
    found = re.search(rf"^{heading}:\n((?:- .*\n|  .*\n)+)", inspect.cleandoc(command.help) + "\n", re.MULTILINE)
    return re.findall(r"^- (.*(?:\n  .*)*)$", found[1], re.MULTILINE) if found else []


@pytest.mark.parametrize("words", COMMANDS)
def test_help_fits_80_columns(words: str) -> None:
    _, _, rest = inspect.cleandoc(COMMANDS[words].help).partition("\n\n")
    assert [line for line in rest.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("words", COMMANDS)
def test_help_names_the_exit_codes(words: str) -> None:
    codes = items(COMMANDS[words], "Exit codes")
    assert codes
    assert [code for code in codes if not re.match(r"\d+: |the job's own exit code\b", code)] == []


@pytest.mark.parametrize("words", COMMANDS)
def test_help_has_examples_that_the_command_accepts(words: str) -> None:
    examples = items(COMMANDS[words], "Examples?")
    assert examples
    for example in examples:
        assert example.startswith(f"`{words}"), example
        # What follows `|` is another program's.
        typed = shlex.split(example.strip("`").partition(" | ")[0])[len(words.split()) :]
        command = COMMANDS[words]
        options = {option for parameter in command.params for option in parameter.opts}
        given = typed[: typed.index("--")] if "--" in typed else typed
        assert {word for word in given if word.startswith("-")} <= options, example
        required = [parameter for parameter in command.params if parameter.required]
        assert len([word for word in given if not word.startswith("-")]) >= len(required), example
