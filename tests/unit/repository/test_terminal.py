"""Pictures of terminals show real output: the end of a rehearsal, and the screens of `ops`."""

import re
import runpy
import sys
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
 resources without an owner   \x1b[32m0\x1b[0m

What the deployment waited for
"""


@pytest.fixture(scope="module")
def terminal() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "docs" / "terminal.py"))


@pytest.fixture(scope="module")
def screens() -> dict[str, Any]:
    docs = str(REPOSITORY / "docs")
    sys.path.insert(0, docs)
    try:
        return runpy.run_path(f"{docs}/screens.py")
    finally:
        sys.path.remove(docs)


def shown(svg: str) -> str:
    """Return the picture's text with plain instead of non-breaking spaces."""
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 (our own file)
    return "\n".join(element.text or "" for element in found).replace("\N{NO-BREAK SPACE}", " ")


def test_the_picture_shows_the_end_of_the_output_and_nothing_else(terminal: dict[str, Any]) -> None:
    text = shown(terminal["draw_rehearsal"](OUTPUT))
    for line in ("✔ cdk destroy --all 33.6 s", "real", "CDK CLI & synthesis", "resources without an owner"):
        assert line in text
    assert "cdk deploy" not in text
    assert "waited for" not in text


@pytest.mark.parametrize("step", ["ops destroy", "cdk destroy (the protected stacks stay)"])
def test_the_picture_begins_with_the_step_that_destroys(terminal: dict[str, Any], step: str) -> None:
    assert f'progress.step("{step}")' in (REPOSITORY / "rehearsal" / "run" / "steps.py").read_text()
    assert f"✔ {step} 33.6 s" in shown(terminal["draw_rehearsal"](OUTPUT.replace("cdk destroy --all", step)))


def test_the_picture_asks_no_host(terminal: dict[str, Any]) -> None:
    for svg in (terminal["draw_rehearsal"](OUTPUT), terminal["REHEARSAL"].read_text()):
        assert not re.search(r"url\(.?http|href=|@import", svg)


@pytest.mark.parametrize(
    "output", ["", "✔ cdk destroy --all 1 s\n", "resources without an owner 0\n✔ cdk destroy --all 1 s\n"]
)
def test_output_of_an_incomplete_rehearsal_draws_nothing(terminal: dict[str, Any], output: str) -> None:
    with pytest.raises(ValueError, match="no whole rehearsal"):
        terminal["draw_rehearsal"](output)


def test_the_committed_picture_is_of_a_rehearsal_that_left_nothing(terminal: dict[str, Any]) -> None:
    text = shown(terminal["REHEARSAL"].read_text())
    assert re.search(r"resources without an owner\s+0\b", text)
    assert "Verdict" in text


def command(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_runs_in_a_terminal_of_the_picture_s_size(terminal: dict[str, Any]) -> None:
    code = "import os, sys; print(sys.stdin.isatty(), sys.stdout.isatty(), os.get_terminal_size().columns)"
    assert terminal["shown"](command(code), 91) == "True True 91\n"


def test_a_picture_shows_the_output_in_colour_and_no_progress(terminal: dict[str, Any]) -> None:
    code = "import sys; print('\x1b[31mred\x1b[0m', flush=True); print('\x1b[1A working', file=sys.stderr)"
    svg = terminal["draw"]("ops x", terminal["shown"](command(code)), 40, "x")
    assert re.search(r"\$.ops.x.*red", shown(svg).replace("\n", " "))
    assert "working" not in shown(svg)
    assert len(set(re.findall(r"x-r\d+ \{ fill: (#\w+)", svg))) > 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; print('no credentials', file=sys.stderr); sys.exit(2)", "has no access: no credentials"),
        ("print('\x1b[1A')", "redraws its lines"),
    ],
)
def test_a_screen_that_is_none_is_refused(terminal: dict[str, Any], code: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        terminal["shown"](command(code))


def test_an_unknown_picture_is_named(screens: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert screens["main"](["nothing"]) == 1
    assert "Allowed: help, check, explain, review, preflight" in capsys.readouterr().err


def test_the_pull_request_of_the_picture_changes_what_it_means_to(screens: dict[str, Any]) -> None:
    """A change that no longer finds its text would be missed only at the next `make pictures`."""
    text = (REPOSITORY / "tests" / "environments" / "dev.yaml").read_text()
    assert [before for before in screens["CHANGES"] if before not in text] == []


def test_the_pictures_that_need_no_account_show_what_is_printed_today(screens: dict[str, Any]) -> None:
    without = screens["Setting"].CHECKOUT
    names = [name for name, screen in screens["SCREENS"].items() if screen.setting is without]
    assert names
    with screens["SETTINGS"][without]() as place:
        for name in names:
            assert shown(screens["drawn"](name, place)) == shown(screens["path"](name).read_text()), "make pictures"


def test_every_screen_has_a_picture_that_a_page_shows(screens: dict[str, Any]) -> None:
    """A picture that no line of SCREENS draws would never be redrawn."""
    names = set(screens["SCREENS"])
    assert {file.stem for file in screens["PICTURES"].iterdir()} == names
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    linked = {name for page in pages for name in re.findall(r"pictures/([\w-]+)\.svg\)", page.read_text())}
    assert linked == names
    for name, screen in screens["SCREENS"].items():
        svg = screens["path"](name).read_text()
        assert not re.search(r"url\(.?http|href=|@import", svg)
        assert f"$ {screen.command}" in shown(svg)
