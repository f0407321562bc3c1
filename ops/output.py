"""The output formats of commands that report data: a table for people, JSON and YAML for programs."""

import json
import math
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from ops.cli import aside, console, fail, say, show


class Format(StrEnum):
    """A format of `--output`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[Format, typer.Option("-o", "--output", help="table for people; json or yaml for programs.")]


def teller(output: Format) -> Callable[[str], None]:
    """Return what prints lines beside the data: to standard output for people, to standard error for programs."""
    return say if output is Format.TABLE else aside


def require_terminal(output: Format, instead: str) -> None:
    """End the program unless a table can be redrawn in place; `instead` names what to use elsewhere."""
    if not (console.is_terminal and output is Format.TABLE):
        fail(f"--watch is refused: it redraws a table. Allowed: a terminal, without -o. Fix: use {instead}")


def emit(data: Any, table: Callable[[], RenderableType] | None, output: Format) -> None:
    """Print `data` to standard output in the format: `table()` for people; for programs one document, never wrapped.

    Args:
        data: JSON-like: mappings with text keys, lists, texts, numbers, booleans, None.
        table: Draws the same data; called for `Format.TABLE` only. None if people have read its lines already.
        output: The value of the command's `output: Output = Format.TABLE`.
    """
    if output is Format.TABLE:
        if table:
            show(table())
    elif output is Format.JSON:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        import yaml  # noqa: PLC0415 - only this format needs it

        typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=math.inf), nl=False)
