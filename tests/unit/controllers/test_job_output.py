"""The output that a supervisor shows: whole lines, with marks that say where each line begins."""

import io
import random
from http.client import HTTPException

import pytest
from rich.console import Console

from controllers import job_output
from controllers.job_output import JobOutput
from controllers.telemetry import log
from ops.jobs.shown import Shown


class Ray:
    """A head whose job has printed `text`; each connection sends all of it, in pieces, and may break."""

    def __init__(self, text: str, seed: int) -> None:
        self.text = text
        self.random = random.Random(seed)  # noqa: S311

    def tail(self, _: str) -> "Ray":
        self.left = self.text
        return self

    def read(self, _: float) -> list[str] | None:
        if self.random.random() < 0.1:
            raise HTTPException("the connection broke")
        size = self.random.randrange(1, 60)
        piece, self.left = self.left[:size], self.left[size:]
        return [piece] if piece else None

    def close(self) -> None:
        """Do nothing."""


def printed(ray: Ray, capsys: pytest.CaptureFixture[str]) -> str:
    def mark(position: int) -> None:
        log("output", controller="job-supervisor", job="train-1", position=position)

    output = JobOutput("train-1", mark)
    while output.follow(ray, 1) or ray.left:  # type: ignore[arg-type]
        pass
    output.end()
    return capsys.readouterr().out


def text_of(generator: random.Random) -> str:
    """Return output of lines of many lengths, with every kind of character."""
    alphabet = 'ab {}"\r\t\x1b[32mé漢'
    lines = ["".join(generator.choices(alphabet, k=generator.randrange(60))) for _ in range(generator.randrange(1, 60))]
    return "\n".join(lines) + "\n"


class Nowhere:
    """No output but that of the logs; there is one attempt."""

    def between(self, *_: object) -> str:
        return ""

    def before(self, _: str) -> list[str]:
        return []

    def rest(self, *_: object) -> tuple[list[str], str]:
        return [], ""


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_is_the_jobs_output_wherever_connections_break_and_logs_are_cut(
    seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_output, "_MARK_EVERY_CHARACTERS", 50)
    generator = random.Random(seed)  # noqa: S311
    text = text_of(generator)
    log = printed(Ray(text, seed), capsys).split("\n")[:-1]
    end = generator.randrange(1, len(log) + 1)
    last_mark = max(number for number, line in enumerate(log) if '"position"' in line)
    begin = generator.randrange(min(end, last_mark) + 1)
    read = io.StringIO(newline="")
    shown = Shown(Console(file=read), Nowhere())
    for lines in (log[:end], log[begin:]):
        shown.read("pod")
        for line in lines:
            shown.line(line)
        shown.end()
    assert read.getvalue() == text


def test_line_that_was_never_finished_is_shown_when_the_job_ends(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(Ray("one\ntwo", 1), capsys).split("\n")
    assert [line for line in lines if '"position"' not in line] == ["one", "two", ""]


def test_line_too_long_to_hold_is_shown_before_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_output, "_LONGEST_HELD_CHARACTERS", 100)
    line = "x" * 500 + " checkpoint of step 7 written"
    ray = Ray(f"{line}\n", 3)
    output = JobOutput("train-1", lambda _: None)
    while output.follow(ray, 1) or ray.left:  # type: ignore[arg-type]
        pass
    assert capsys.readouterr().out == f"{line}\n"
    assert output.progress == 7
