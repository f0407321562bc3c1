"""Every command's help reads well in a terminal of 80 columns, with exit codes and an example that it accepts."""

import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from ops.cli import FIRST, PANELS
from ops.commands import WORDS
from ops.commands.whole import app

COLUMNS: Final = 80


def commands(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{words} {name}")


ROOT: Final = typer.main.get_command(app)
ALL: Final = dict(commands(ROOT, "ops"))
COMMANDS: Final = {words: command for words, command in ALL.items() if not hasattr(command, "commands")}


@cache
def shown(words: str) -> str:
    """Return the help as a terminal of 80 columns shows it; each test reads other properties of it."""
    result = CliRunner().invoke(app, [*words.split()[1:], "-h"], env={"COLUMNS": str(COLUMNS)})
    assert result.exit_code == 0, result.output
    return result.stdout


def words_of(text: str) -> set[str]:
    """Return the words of a help text, without the marks of Markdown, of lists and of boxes."""
    return set(re.sub(r"[│•|]", " ", text.replace("`", "")).split())


def items(command: Any, heading: str) -> list[str]:
    """Return the items of the list below `Exit codes:` or `Examples:` in the help text."""
    found = re.search(rf"^{heading}:\n((?:- .*\n|  .*\n)+)", inspect.cleandoc(command.help) + "\n", re.MULTILINE)
    return re.findall(r"^- (.*(?:\n  .*)*)$", found[1], re.MULTILINE) if found else []


@pytest.mark.parametrize("words", ALL)
def test_help_fits_80_columns(words: str) -> None:
    lines = shown(words).splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []


@pytest.mark.parametrize("words", ALL)
def test_help_cuts_no_word_and_loses_none(words: str) -> None:
    """A word that is longer than its column would be folded, and unknown HTML would vanish."""
    command = ALL[words]
    texts = [inspect.cleandoc(command.help or ""), *(parameter.help or "" for parameter in command.params)]
    # The lines that tables and code blocks are made of are no words.
    expected = {word for text in texts for word in words_of(text) if not re.fullmatch(r"-|-{3,}|```\w*|json", word)}
    assert sorted(expected - words_of(shown(words))) == []
    names = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    assert sorted(names - words_of(shown(words))) == []


@pytest.mark.parametrize("words", ALL)
def test_help_is_not_cut_short(words: str) -> None:
    """The marks of a cut text that the help itself does not contain."""
    own = inspect.cleandoc(ALL[words].help or "").count("…")
    assert shown(words).count("…") == own
    assert "..." not in shown(words).replace("[ARGS]...", "")


@pytest.mark.parametrize("words", ALL)
def test_markdown_of_the_help_is_rendered(words: str) -> None:
    """Rendered lists have bullets, and rendered code has no backticks."""
    text = shown(words)
    assert "`" not in text
    assert not re.search(r"^ *- ", text, re.MULTILINE)
    if "Exit codes:" in text:
        assert re.search(r"^ Exit codes:\s*\n\s*\n  • ", text, re.MULTILINE)


def test_the_root_s_help_has_the_table_of_exit_codes() -> None:
    rows = {found[1]: found[2].strip() for found in re.finditer(r"^  (\d+) {2,}(\S.*)$", shown("ops"), re.MULTILINE)}
    assert list(rows) == ["0", "1", "2", "3", "130"]
    assert rows["1"] == "refused, not ready or out of date"
    assert items(ROOT, "Examples")


@pytest.mark.parametrize("words", COMMANDS)
def test_help_begins_with_a_sentence(words: str) -> None:
    first, _, _ = inspect.cleandoc(COMMANDS[words].help).partition("\n\n")
    assert first.endswith(".")


@pytest.mark.parametrize("words", COMMANDS)
def test_help_names_the_exit_codes(words: str) -> None:
    codes = items(COMMANDS[words], "Exit codes")
    assert codes
    assert [code for code in codes if not re.match(r"\d+: |the (job|command)'s own exit code\b", code)] == []


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
        required = {parameter.opts[0] for parameter in command.params if parameter.required}
        missing = {option for option in required if option.startswith("-")} - set(given)
        assert missing == set(), example
        arguments = [name for name in required if not name.startswith("-")]
        assert len([word for word in given if not word.startswith("-")]) >= len(arguments), example


def listed(text: str) -> list[str]:
    """Return the commands that the panels of a help list, without the options'."""
    return re.findall(r"^│ ([a-z][\w-]*) {2,}\S", text, re.MULTILINE)


@pytest.mark.parametrize("words", ["--help", "-h", "", "--no-color --help"])
def test_the_root_s_help_shows_at_most_twelve_commands_and_how_to_see_all(words: str) -> None:
    text = CliRunner().invoke(app, words.split(), env={"COLUMNS": str(COLUMNS)}).stdout
    assert listed(text) == list(FIRST)
    assert len(FIRST) <= 12
    assert "ops --help --all" in text


@pytest.mark.parametrize("words", ["--help --all", "--all --help", "--all"])
def test_the_whole_help_shows_every_command_in_its_panel(words: str) -> None:
    result = CliRunner().invoke(app, words.split(), env={"COLUMNS": str(COLUMNS)})
    assert result.exit_code == 0
    assert re.findall(r"^╭─ (.*?) ─+╮$", result.stdout, re.MULTILINE) == ["Options", *PANELS]
    assert listed(result.stdout) == [name for names in PANELS.values() for name in names]
    assert sorted(listed(result.stdout)) == sorted(name for names in WORDS.values() for name in names)


@pytest.mark.parametrize("words", ALL)
def test_help_shows_what_to_write_and_not_python_s_types(words: str) -> None:
    assert re.findall(r"<(?:str|int|float|bool|dir|file|path|list)\b[^>]*>?", shown(words)) == []
