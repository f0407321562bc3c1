"""Read the project's tables of figures: `*.yaml` files in JSON syntax with whole-line comments."""

import json
from pathlib import Path
from typing import Any


def read_table(file: Path) -> dict[str, Any]:
    """Return the table. Every `ops` command loads it, and JSON loads about 40 times faster than YAML."""
    lines = ("" if line.startswith("#") else line for line in file.read_text().splitlines())
    table: dict[str, Any] = json.loads("\n".join(lines))
    return table
