"""The README's picture of a rehearsal shows the end of its output."""

import re
import runpy
from typing import Any
from xml.etree import ElementTree

import pytest

from rehearsal.paths import REPOSITORY

OUTPUT = """\
✔ cdk deploy --all 90.1 s
▶ cdk destroy --all …
✔ cdk destroy --all 33.6 s
Verdict
 \x1b[32mreal\x1b[0m                       CDK CLI & synthesis
 resources made by nobody   \x1b[32m0\x1b[0m

What the deployment waited for
"""


@pytest.fixture(scope="module")
def terminal() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "docs" / "terminal.py"))


def shown(svg: str) -> str:
    """Return the picture's text with plain instead of non-breaking spaces."""
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 (our own file)
    return "\n".join(element.text or "" for element in found).replace("\N{NO-BREAK SPACE}", " ")


def test_the_picture_shows_the_end_of_the_output_and_nothing_else(terminal: dict[str, Any]) -> None:
    text = shown(terminal["draw"](OUTPUT))
    for line in ("✔ cdk destroy --all 33.6 s", "real", "CDK CLI & synthesis", "resources made by nobody"):
        assert line in text
    assert "cdk deploy" not in text
    assert "waited for" not in text


def test_the_picture_asks_no_host(terminal: dict[str, Any]) -> None:
    for svg in (terminal["draw"](OUTPUT), terminal["FILE"].read_text()):
        assert not re.search(r"url\(.?http|href=|@import", svg)


@pytest.mark.parametrize(
    "output", ["", "✔ cdk destroy --all 1 s\n", "resources made by nobody 0\n✔ cdk destroy --all 1 s\n"]
)
def test_output_of_no_whole_rehearsal_draws_nothing(terminal: dict[str, Any], output: str) -> None:
    with pytest.raises(ValueError, match="no whole rehearsal"):
        terminal["draw"](output)


def test_the_committed_picture_is_of_a_rehearsal_that_left_nothing(terminal: dict[str, Any]) -> None:
    text = shown(terminal["FILE"].read_text())
    assert re.search(r"resources made by nobody\s+0\b", text)
    assert "Verdict" in text
