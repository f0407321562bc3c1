"""The progress that a user sees while a step runs."""

import io
import re
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from rehearsal.report import progress
from rehearsal.report.progress import StepProgress, elapsed
from tests.support.waiting import wait_until


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (59.9, "0:59"), (60, "1:00"), (754, "12:34")])
def test_elapsed_time_is_shown_as_a_clock_does(seconds: float, shown: str) -> None:
    assert elapsed(seconds) == shown


def test_at_a_terminal_a_running_step_shows_its_time_and_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = io.StringIO()
    told = StepProgress(Console(file=screen, force_terminal=True, width=100, color_system=None))
    with told.step("cdk deploy --all"):
        told.echo("rayhp-dev-eks | 12/80 | [bold]CREATE_IN_PROGRESS\n")
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 3600))
        shown = r"cdk deploy --all 60:\d\d rayhp-dev-eks \| 12/80 \| \[bold\]CREATE_IN_PROGRESS"
        wait_until(lambda: re.search(shown, screen.getvalue()), "the step's time")


def test_without_a_terminal_a_step_is_one_line_at_its_start_and_one_at_its_end() -> None:
    screen = io.StringIO()
    told = StepProgress(Console(file=screen, width=100))
    with told.step("cdk deploy --all") as step:
        told.echo("rayhp-dev-eks | 12/80")
        step.see("one UpdateCluster was sent")
    shown = r"▶ cdk deploy --all …\n✔ cdk deploy --all \d+\.\d s\n    one UpdateCluster was sent\n"
    assert re.fullmatch(shown, screen.getvalue())
