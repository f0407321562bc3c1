"""The output of a run, from logs that the node cut and supervisors that print it again."""

import io
import json
from collections.abc import Iterator

import pytest
from rich.console import Console

from ops.jobs.shown import Shown

BEGAN = json.dumps({"time": "10:00:00", "message": "began", "controller": "job-supervisor", "run": "train"})


def mark(position: int, job: str = "train-1") -> str:
    fields = {"time": f"at {position}", "message": "output", "controller": "job-supervisor"}
    return json.dumps(fields | {"job": job, "position": position})


def supervised(lines: list[str], every: int = 3) -> list[str]:
    """Return a supervisor's log of a job's output, with a mark before each `every` lines."""
    log, position = [BEGAN], 0
    for number, line in enumerate(lines):
        if number % every == 0:
            log.append(mark(position))
        log.append(line)
        position += len(line) + 1
    return log


def ended(job: str = "train-1") -> str:
    return json.dumps({"time": "at its end", "message": "ended", "controller": "job-supervisor", "submission_id": job})


class Elsewhere:
    """What Ray and the storage have of each attempt, the first one first; of some, the end is missing."""

    def __init__(self, kept: dict[str, str] | None = None, *, cut: tuple[str, ...] = ()) -> None:
        self.kept = kept or {}
        self.cut = cut
        self.asked: list[str] = []

    def between(self, job: str, begin: int, end: int) -> str:
        return self.kept.get(job, "")[begin:end]

    def before(self, job: str) -> list[str]:
        return [f"train-{number}" for number in range(1, int(job.rpartition("-")[2]))]

    def rest(self, job: str, begin: int) -> tuple[list[str], str]:
        self.asked.append(job)
        if job not in self.kept:
            return [], "nobody has it"
        return [self.kept[job][begin:]], "its end was not kept" if job in self.cut else ""


def shown(*logs: tuple[str, list[str]], source: Elsewhere | None = None, finish: tuple[str, ...] = ()) -> list[str]:
    """Return what is shown of these reads of logs, in order, and of attempts that are finished afterwards."""
    text = io.StringIO()
    output = Shown(Console(file=text, width=40), source or Elsewhere())
    for name, lines in logs:
        output.read(name)
        for line in lines:
            output.line(line)
    output.end()
    for job in finish:
        output.finish(job)
    return text.getvalue().splitlines()


OUTPUT = [f"line {number} " + "x" * (number * 7 % 50) for number in range(20)]
LOG = supervised(OUTPUT)


def cuts() -> Iterator[tuple[int, int]]:
    """Yield where a read ends and where the next one begins, in every way without a gap."""
    for end in range(1, len(LOG) + 1):
        for begin in range(end + 1):
            yield end, begin


def test_each_line_is_shown_once_wherever_a_read_ends_and_the_next_begins() -> None:
    for end, begin in cuts():
        # What the node still has at the second read begins somewhere, and contains a mark.
        if any('"output"' in line for line in LOG[begin:]):
            told = shown(("pod", LOG[:end]), ("pod", LOG[begin:]))
            assert told == ["── began: run train", *OUTPUT], (end, begin)


def test_gap_is_counted_to_the_character() -> None:
    first, second = LOG[: LOG.index(OUTPUT[5]) + 1], LOG[LOG.index(OUTPUT[10]) :]
    told = shown(("pod", first), ("pod", second))
    characters = sum(len(line) + 1 for line in OUTPUT[6:10])
    [gap] = [line for line in told if "missing" in line]
    assert gap == f"── output is missing: characters {characters}, the node has removed it from the log"
    assert [line for line in told[1:] if line != gap] == OUTPUT[:6] + OUTPUT[10:]
    assert told.index(gap) == 7


def test_gap_is_filled_while_ray_still_has_the_output() -> None:
    text = "".join(f"{line}\n" for line in OUTPUT)
    told = shown(("pod", LOG[:3]), ("pod", LOG[-3:]), source=Elsewhere({"train-1": text}))
    assert told == ["── began: run train", *OUTPUT]


def test_supervisor_that_follows_another_prints_nothing_twice() -> None:
    successor = supervised([*OUTPUT, "new"])
    successor[0] = BEGAN.replace("10:00:00", "11:00:00")
    told = shown(("pod-1", LOG), ("pod-2", successor))
    assert told == ["── began: run train", *OUTPUT, "── began: run train", "new"]


def test_attempts_of_equal_output_are_both_shown() -> None:
    second = [ended(), mark(0, "train-2"), *OUTPUT[:2]]
    assert shown(("pod", [*LOG, *second])) == [
        "── began: run train",
        *OUTPUT,
        "── ended: submission_id train-1",
        *OUTPUT[:2],
    ]


def test_end_of_an_earlier_attempt_whose_position_is_unknown_is_shown_with_a_warning() -> None:
    told = shown(("pod", ["the last line", ended(), mark(0, "train-2"), "hello"]))
    assert told[1].startswith("── output before this may be missing")
    assert told[2:] == ["the last line", "hello"]


def test_rest_of_an_attempt_whose_log_was_lost_stands_before_the_next_attempt() -> None:
    """Its supervisor was lost with its node; another one has the log of the next attempt."""
    text = "".join(f"{line}\n" for line in OUTPUT)
    elsewhere = Elsewhere({"train-1": text})
    successor = [BEGAN, mark(0, "train-2"), "hello"]
    assert shown(("pod-1", LOG[:9]), ("pod-2", successor), source=elsewhere) == [
        "── began: run train",
        *OUTPUT,
        "hello",
    ]
    assert elsewhere.asked == ["train-1"]


def test_attempts_whose_logs_are_all_gone_are_shown_once_and_what_is_missing_is_marked() -> None:
    elsewhere = Elsewhere({"train-1": "one\n", "train-2": "two\n"}, cut=("train-2",))
    assert shown(source=elsewhere, finish=("train-1", "train-2", "train-3", "train-2")) == [
        "one",
        "two",
        "── output may be missing: job train-2, its end was not kept",
        "── output may be missing: job train-3, nobody has it",
    ]


def test_attempt_that_a_log_has_to_its_end_is_sought_nowhere_else() -> None:
    elsewhere = Elsewhere()
    shown(
        ("pod", [*LOG, ended(), mark(0, "train-2"), "hello", ended("train-2")]), source=elsewhere, finish=("train-2",)
    )
    assert elsewhere.asked == []


def test_supervisor_of_an_earlier_version_prints_no_marks() -> None:
    log = [BEGAN, *OUTPUT]
    assert shown(("pod", log[:9]), ("pod", log)) == ["── began: run train", *OUTPUT]


@pytest.mark.parametrize("line", ["{", '{"a": 1}', '["x"]', '{"message": "output"}'])
def test_line_of_the_job_that_looks_like_a_message_is_shown(line: str) -> None:
    assert shown(("pod", [BEGAN, mark(0), line]))[1:] == [line]
