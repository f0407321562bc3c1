"""The output formats of commands that report data: a table for people, JSON and YAML for programs."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from ops.cli import show


class Format(StrEnum):
    """A format of `--output`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[Format, typer.Option("-o", "--output", help="table for people; json or yaml for programs.")]


def emit(data: Any, table: Callable[[], RenderableType], output: Format) -> None:
    """Print `data` to standard output in the format: `table()` for people; for programs one document, never wrapped.

    Args:
        data: JSON-like: mappings with text keys, lists, texts, numbers, booleans, None.
        table: Draws the same data; called for `Format.TABLE` only.
        output: The value of the command's `output: Output = Format.TABLE`.
    """
    if output is Format.TABLE:
        show(table())
    elif output is Format.JSON:
        typer.echo(json.dumps(data, indent=2))
    else:
        import yaml  # noqa: PLC0415 - only this format needs it

        typer.echo(yaml.safe_dump(data, sort_keys=False), nl=False)
