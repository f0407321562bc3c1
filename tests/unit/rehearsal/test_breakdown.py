"""The breakdown of a rehearsal's time, and the report for `make bench`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rehearsal.report import figures as report
from rehearsal.report.breakdown import (
    BUILD,
    CLI,
    CONTROL_PLANE,
    FUNCTIONS,
    PARTS,
    REST,
    SERVICES,
    SYNTHESIS,
    Spans,
    breakdown,
)
from rehearsal.report.progress import Step


def invoked(ended: float, seconds: float) -> dict[str, Any]:
    return {"kind": "lambda", "time": ended, "seconds": seconds, "error": None}


def made(start: float, end: float) -> dict[str, Any]:
    return {"kind": "cfn", "time": end, "start": start, "end": end}


def control_plane(ended: float, seconds: float) -> dict[str, Any]:
    return {"kind": "eks", "action": "control plane started", "time": ended, "seconds": seconds}


def test_each_part_is_given_its_time_and_together_they_are_the_whole() -> None:
    found = breakdown(
        (100.0, 200.0),
        Spans(builds=[(100.0, 110.0)], commands=[(114.0, 180.0)], syntheses=[(115.0, 122.0)]),
        [control_plane(135.0, 5.0), made(128.0, 160.0), invoked(150.0, 10.0)],
    )
    assert found == {
        BUILD: 10.0,
        CONTROL_PLANE: 5.0,
        FUNCTIONS: 10.0,
        SERVICES: 32.0 - 5.0 - 10.0,
        SYNTHESIS: 7.0,
        CLI: 66.0 - 7.0 - 32.0,
        REST: 4.0 + 20.0,
    }
    assert list(found) == list(PARTS)


def test_parallel_work_is_counted_once() -> None:
    found = breakdown((0.0, 10.0), Spans(), [invoked(4.0, 3.0), invoked(5.0, 3.0), invoked(9.0, 2.0)])
    assert found[FUNCTIONS] == pytest.approx(4.0 + 2.0)
    assert sum(found.values()) == pytest.approx(10.0)


def test_what_is_outside_the_rehearsal_is_not_counted() -> None:
    found = breakdown((10.0, 20.0), Spans(commands=[(5.0, 12.0), (19.0, 30.0), (40.0, 50.0)]), [])
    assert found[CLI] == pytest.approx(3.0)


def test_entries_without_a_duration_are_passed_over() -> None:
    journal = [
        {"kind": "lambda", "time": 3.0, "function": "handler", "no_route": "no endpoint"},
        {"kind": "eks", "action": "control plane stopped", "time": 4.0},
        {"kind": "api", "operation": "UpdateCluster", "time": 5.0},
    ]
    assert breakdown((0.0, 10.0), Spans(), journal)[REST] == pytest.approx(10.0)


def test_a_report_is_read_as_it_was_written_and_steps_that_ran_twice_are_added_up(tmp_path: Path) -> None:
    steps = [Step("ops wait", seconds=1.5), Step("cdk diff", seconds=3.0), Step("ops wait", seconds=2.0)]
    report.write(tmp_path, steps, {CLI: 4.004, REST: 2.5})
    written = report.read(tmp_path / report.NAME)
    assert written.by_step() == {"ops wait": 3.5, "cdk diff": 3.0}
    assert written.parts == {CLI: 4.0, REST: 2.5}


def test_a_report_has_the_processor_time_of_what_has_ended(tmp_path: Path) -> None:
    report.write(tmp_path, [], {})
    before = report.read(tmp_path / report.NAME).cpu
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-S", "-c", busy], check=True)
    report.write(tmp_path, [], {})
    assert report.read(tmp_path / report.NAME).cpu >= before + 0.2


def test_a_report_from_before_processor_time_was_measured_can_be_read(tmp_path: Path) -> None:
    (tmp_path / report.NAME).write_text('{"steps": [], "parts": {}}')
    assert report.read(tmp_path / report.NAME).cpu == 0.0


def test_a_rehearsal_that_never_had_an_account_has_no_journal(tmp_path: Path) -> None:
    assert report.journal(tmp_path) == []
    (tmp_path / "journal.jsonl").write_text(json.dumps(invoked(2.0, 1.0)) + "\n")
    assert report.journal(tmp_path) == [invoked(2.0, 1.0)]
