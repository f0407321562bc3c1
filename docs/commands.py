"""Write docs/reference/commands.md from the help texts of `ops` and of the Makefile: `python docs/commands.py`."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from ops.commands.whole import app
from ops.environment.generated import cell

_ROOT: Final = Path(__file__).resolve().parents[1]
FILE: Final = _ROOT / "docs" / "reference" / "commands.md"
_INTRODUCTION: Final = """# Commands

`python docs/commands.py` generates this page from the programs' help texts. Run `source .venv/bin/activate` before
commands of `ops`; make's targets install what they need. `make` also lists the targets for contributors.
"""
_TARGETS: Final = (
    *("setup", "rehearse", "rehearse-job", "rehearse-down", "lose"),
    *("drill", "test", "manifests", "owners", "lock", "clean"),
)


def page() -> str:
    """Return the page: a section for each command of `ops`, and a table of the users' targets of make."""
    root = typer.main.get_command(app)
    sections = (line for found in (("ops", root), *_commands(root, "ops")) for line in _section(*found))
    return "\n".join([_INTRODUCTION, *_targets(), *sections]).rstrip() + "\n"


def _targets() -> Iterator[str]:
    found = dict(re.findall(r"^([a-z-]+):.*?## (.*)$", (_ROOT / "Makefile").read_text(), re.MULTILINE))
    yield from ("## make", "", "| target | does |", "|---|---|")
    yield from (f"| `make {target}` | {cell(found[target])} |" for target in _TARGETS)
    yield ""


def _commands(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Yield the words that call each command below a group, and the command."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, below in sorted(command.commands.items()):
        if not below.hidden:
            yield from _commands(below, f"{words} {name}")


def _section(words: str, command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    yield from (f"## {words}", "")
    yield from (
        "```text",
        " ".join(
            [
                words,
                *("[OPTIONS]",) * bool(options),
                *map(_usage, arguments),
                *("COMMAND",) * hasattr(command, "commands"),
            ]
        ),
        "```",
        "",
    )
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield from (*_markdown(paragraph), "")
    if command.params:
        yield from ("| | default | meaning |", "|---|---|---|")
        yield from map(_row, (*arguments, *options))
        yield ""


def _markdown(paragraph: str) -> Iterator[str]:
    """Yield a table or a block of code unchanged; else the text on one line, then each item of its list on a line."""
    if paragraph.startswith(("|", "```")):
        yield paragraph
        return
    text, *items = re.split(r"\n *(?=- )", paragraph)
    yield " ".join(text.split())
    if items:
        yield ""
    yield from (" ".join(item.split()) for item in items)


def _usage(argument: Any) -> str:
    metavar = (argument.metavar or argument.name.upper()).strip("[]")
    return metavar if argument.required else f"[{metavar}]"


def _row(parameter: Any) -> str:
    names = parameter.opts if parameter.param_type_name == "option" else [_usage(parameter)]
    shown = ", ".join(f"`{name}`" for name in names)
    default = parameter.default
    fallback = "" if default in (None, False, ()) or callable(default) else f"`{getattr(default, 'value', default)}`"
    if parameter.envvar:
        fallback = f"{'required, or ' if parameter.required else ''}`{parameter.envvar}`"
    elif parameter.required:
        fallback = "required"
    return f"| {shown} | {fallback} | {cell(parameter.help or '')} |"


if __name__ == "__main__":
    FILE.write_text(page())
