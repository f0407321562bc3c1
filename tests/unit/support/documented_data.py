"""The data of `-o json` as the help of a command shows it, and comparison of shapes."""

import inspect
import json
import re
from typing import Any, Final

import typer

from ops.commands.whole import app

SCALARS: Final = (str, int, float, bool, type(None))


def documented(*words: str) -> Any:
    """Return the example of a command's data in its help."""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    [example] = re.findall(r"```json\n(.*?)```", inspect.cleandoc(command.help), re.DOTALL)
    return json.loads(example)


def assert_same_shape(shown: Any, example: Any, place: str = "$") -> None:
    """Compare keys and kinds; null may stand for any scalar, and an item of a list for all."""
    if isinstance(example, dict) and isinstance(shown, dict):
        if place.endswith(".workers"):
            assert all(isinstance(count, int) for count in shown.values()), place
            return
        assert list(shown) == list(example), place
        for key, value in example.items():
            assert_same_shape(shown[key], value, f"{place}.{key}")
    elif isinstance(example, list):
        assert isinstance(shown, list), place
        for item in shown:
            assert_same_shape(item, example[0], f"{place}[]")
    else:
        assert isinstance(shown, SCALARS), place
        if None not in (shown, example):
            numbers = isinstance(shown, int | float) and isinstance(example, int | float)
            assert numbers or type(shown) is type(example), place
