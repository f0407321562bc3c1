"""One version: pyproject.toml states it, the changelog describes it, `ops --version` shows it."""

import re
import tomllib

from typer.testing import CliRunner

from ops.commands.whole import app
from rehearsal.paths import REPOSITORY


def test_the_three_places_of_the_version_agree() -> None:
    stated = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", stated)
    newest = re.search(r"^## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == stated
    assert CliRunner().invoke(app, ["--version"]).stdout == f"{stated}\n"
