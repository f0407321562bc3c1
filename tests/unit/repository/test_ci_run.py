"""`.ci/run`: its output, the order of the tiers, and its exit codes."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import main
import report
import schedule
from config.facts import support
from schedule import Result
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tiers import ROOM, Tier

CI = Path(main.__file__).parent


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiers run beside each other, however busy this machine is."""
    monkeypatch.setattr(schedule, "keeps_up", lambda: True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository of one commit with two files."""
    directory = tmp_path / "repository"
    directory.mkdir()
    for name in ("product.py", "guide.md"):
        (directory / name).write_text(name)
    (directory / ".gitignore").write_text(".ci/state/\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message=first")):
        argv = ["git", *words]
        subprocess.run(argv, cwd=directory, check=True)
    return directory


def tier(name: str, script: str, *, cores: float = 1, budget: int = 100, files: Sequence[str] = ("*",)) -> Tier:
    return Tier(name, f"bash -c {shlex.quote(script)}", budget, cores, tuple(files), needs=())


def run(repository: Path, *tiers: Tier, words: Sequence[str] = ()) -> int:
    return main.main(words, tiers, repository)


def rows(output: str) -> dict[str, str]:
    """Map each tier of the table to the rest of its line."""
    _, _, table = output.rpartition("\ntier ")
    lines = [line.split(None, 1) for line in table.splitlines()[1:]]
    return {words[0]: words[1] for words in lines if len(words) == 2}


def test_tiers_see_the_day_of_the_table_of_support_as_today(
    repository: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(support.TODAY_VARIABLE)
    assert run(repository, tier("today", f"echo today is ${support.TODAY_VARIABLE}")) == 0
    assert f"\ntoday is {support.table()['date']}\n" in capfd.readouterr().out


def test_each_tier_has_its_output_and_a_line_of_the_table(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(repository, tier("first", "echo 3 passed in 1 s"), tier("second", "echo to stderr >&2")) == 0
    output = capfd.readouterr().out
    assert "=== first: bash -c" in output
    assert "\n3 passed in 1 s\n" in output
    assert "\nto stderr\n" in output
    assert list(rows(output)) == ["set-up", "first", "second", "whole"]


def test_a_run_says_which_tiers_the_seed_left_out_and_takes_them_by_name(
    repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sampled = [replace(tier(name, f"echo {name} ran"), drawn_from="both") for name in ("first", "second")]
    assert run(repository, *sampled, words=["--seed", "1"]) == 0
    output = capfd.readouterr().out
    [left_out] = re.findall("^not drawn by the seed: (.*)$", output, re.MULTILINE)
    assert f"\n{left_out} ran\n" not in output
    assert list(rows(output)) == ["set-up", *({"first", "second"} - {left_out}), "whole"]
    assert run(repository, *sampled, words=["--seed", "1", left_out]) == 0
    assert f"\n{left_out} ran\n" in capfd.readouterr().out


def test_after_a_failure_nothing_starts_and_running_tiers_finish(
    repository: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    failed = tmp_path / "failed"
    tiers = (
        tier("fails", f"echo the reason; touch {failed}; exit 7", cores=ROOM / 2),
        tier("beside", f"while [ ! -e {failed} ]; do sleep 0.05; done; sleep 0.5; echo ends well", cores=ROOM / 2),
        tier("later", "echo never"),
    )
    assert run(repository, *tiers) == 1
    output = capfd.readouterr().out
    assert "\nthe reason\n" in output
    assert "\nends well\n" in output
    assert "\nnever\n" not in output
    assert "FAILED" in rows(output)["fails"]
    assert rows(output)["later"] == "not started"
    assert "error: fails failed with exit code 7; its output is above" in output


def test_what_tiers_need_is_made_side_by_side(repository: Path) -> None:
    """Each target waits for the other."""
    waits = "\ttouch $@; for i in $$(seq 600); do [ ! -e {} ] || exit 0; sleep 0.05; done; exit 1\n"
    (repository / "Makefile").write_text(f"a:\n{waits.format('b')}b:\n{waits.format('a')}")
    needing = (replace(tier(name, "true"), needs=(name,)) for name in ("a", "b"))
    assert run(repository, *needing) == 0


def test_tiers_run_in_parallel_as_far_as_there_is_room(repository: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = f"echo begins >> {log}; while [ $(grep -c begins {log}) -lt 2 ]; do sleep 0.05; done; echo ends >> {log}"
    alone = tier("alone", f"echo alone >> {log}", cores=ROOM)
    assert run(repository, *(tier(name, both, cores=ROOM / 2) for name in ("a", "b")), alone) == 0
    assert log.read_text().split() == ["begins", "begins", "ends", "ends", "alone"]


def test_no_tier_joins_others_while_the_machine_is_busy(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "keeps_up", lambda: False)
    log = tmp_path / "log"
    alone = f"echo begins >> {log}; sleep 0.5; echo ends >> {log}"
    assert run(repository, *(tier(name, alone, cores=ROOM / 4) for name in ("a", "b"))) == 0
    assert log.read_text().split() == ["begins", "ends"] * 2


def test_tier_that_mostly_waits_runs_beside_those_that_compute(repository: Path, tmp_path: Path) -> None:
    """Each waits for the other, and the last for the one that began beside the first."""
    begun, done = tmp_path / "begun", tmp_path / "done"
    computes = tier("computes", f"while [ ! -e {begun} ]; do sleep 0.05; done", cores=0.75 * ROOM)
    waits = tier("waits", f"touch {begun}; while [ ! -e {done} ]; do sleep 0.05; done", cores=0.25 * ROOM)
    assert run(repository, computes, tier("later", f"touch {done}", cores=0.75 * ROOM), waits) == 0


def test_overtaking_tiers_never_delay_the_tier_that_is_next(repository: Path, tmp_path: Path) -> None:
    """Two small tiers would fit beside the first, but only one of them leaves room for the second."""
    log = tmp_path / "log"
    first = tier("first", f"while [ ! -s {log} ]; do sleep 0.05; done", cores=0.5 * ROOM)
    second = tier("second", f"echo second >> {log}", cores=0.75 * ROOM)
    small = f"while ! grep -q second {log}; do sleep 0.05; done"
    beside = tier("beside", f"echo beside >> {log}; {small}", cores=0.25 * ROOM)
    assert run(repository, first, second, beside, tier("last", f"echo last >> {log}", cores=0.25 * ROOM)) == 0
    assert log.read_text().split() == ["beside", "second", "last"]


def test_tier_without_a_change_is_skipped_and_says_since_when(
    repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tiers = (tier("product", "echo ran", files=["*.py"]), tier("guides", "echo read", files=["*.md"]))
    assert run(repository, *tiers) == 0
    (repository / "guide.md").write_text("changed")
    capfd.readouterr()
    assert run(repository, *tiers) == 0
    output = capfd.readouterr().out
    assert re.fullmatch(r"unchanged since [0-9a-f]{12}, [0-9-]{10}: skipped", rows(output)["product"])
    assert "\nread\n" in output
    assert run(repository, *tiers, words=["--all"]) == 0
    assert "\nran\n" in capfd.readouterr().out


@pytest.mark.parametrize("change", ["edit", "new file", "mode"])
def test_changed_file_and_failed_run_are_no_reason_to_skip(
    repository: Path, capfd: pytest.CaptureFixture[str], change: str
) -> None:
    product = tier("product", "echo ran; exit $(test -e broken.py; echo $((1 - $?)))", files=["*.py"])
    assert run(repository, product) == 0
    if change == "edit":
        (repository / "product.py").write_text("changed")
    elif change == "new file":
        (repository / "other.py").write_text("new")
    else:
        (repository / "product.py").chmod(0o755)
    capfd.readouterr()
    assert run(repository, product) == 0
    assert "\nran\n" in capfd.readouterr().out


def test_named_tiers_alone_are_run(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiers = (tier("first", "echo one"), tier("second", "echo two"))
    assert run(repository, *tiers, words=["second"]) == 0
    assert list(rows(capfd.readouterr().out)) == ["set-up", "second", "whole"]
    with pytest.raises(SystemExit):
        run(repository, *tiers, words=["third"])
    assert "unknown tier third. Allowed: first, second" in capfd.readouterr().err


def test_seed_is_the_commits_or_the_given_one(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shows = tier("shows", "echo it is $TEST_SEED")
    argv = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(argv, cwd=repository, capture_output=True, text=True, check=True).stdout
    run(repository, shows)
    assert f"\nit is {int(commit[:8], 16)}\n" in capfd.readouterr().out
    run(repository, shows, words=["--all", "--seed", "5"])
    output = capfd.readouterr().out
    assert "seed 5 chooses the sampled tests" in output
    assert "\nit is 5\n" in output


def result(name: str, cpu_seconds: float, *, budget: int, exit_code: int = 0) -> Result:
    return Result(tier(name, "true", budget=budget), exit_code, 1.0, cpu_seconds, Path("log"))


def test_tier_over_its_budget_is_named_with_advice() -> None:
    results = [result("small", 30, budget=40), result("large", 70, budget=60)]
    tiers = [each.tier for each in results]
    [complaint] = report.complaints(tiers, results, check_shares=True)
    assert complaint.startswith("large took 70.0 % of the CPU time of all tiers, its budget is 60 %: make it cheaper")
    assert not report.complaints(tiers, results, check_shares=False)


def test_a_run_of_one_tier_keeps_a_budget_of_100_percent() -> None:
    # For this number of seconds, 100 * seconds / seconds is more than 100 in floating point.
    alone = result("alone", 0.007, budget=100)
    assert 100 * alone.cpu_seconds / alone.cpu_seconds > 100
    assert report.complaints([alone.tier], [alone], check_shares=True) == []


def test_budgets_of_a_failed_run_are_not_checked() -> None:
    results = [result("small", 30, budget=40), result("large", 70, budget=60, exit_code=1)]
    [complaint] = report.complaints([each.tier for each in results], results, check_shares=True)
    assert complaint == "large failed with exit code 1; its output is above"


def contained(*command: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(CI / "contained.py"), *command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_of_the_command_is_kept(code: int) -> None:
    assert contained("bash", "-c", f"exit {code}").returncode == code


def test_process_that_a_command_leaves_running_is_named_ended_and_a_failure(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    ended = contained("--grace", "1", "bash", "-c", f"setsid sleep 3600 & echo $! > {pid}")
    assert ended.returncode == 1
    assert ended.stdout == "left running, and ended now: sleep 3600\n"
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_signal_that_comes_while_the_command_starts_ends_the_command() -> None:
    program = f"""
import os, signal, subprocess, sys
sys.path.insert(0, {str(CI)!r})
import contained
start = subprocess.Popen

def started_and_interrupted(*arguments, **options):
    process = start(*arguments, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    return process

contained.subprocess.Popen = started_and_interrupted
sys.exit(contained.main(["sleep", "3600"], {PATIENCE_SECONDS}))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=PATIENCE_SECONDS).returncode == 128 + 15


def test_process_that_ends_soon_after_its_parent_is_waited_for_and_its_time_counts(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 1: pass"
    script = f"{sys.executable} -c '{busy}' & disown"
    program = (
        "import json, os, sys; pid = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ);"
        "_, status, usage = os.wait4(pid, 0); print(json.dumps([status, usage.ru_utime + usage.ru_stime]))"
    )
    argv = [sys.executable, "-c", program, str(CI / "contained.py"), "bash", "-c", script]
    status, seconds = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    assert status == 0
    assert seconds > 1


def test_interrupted_run_ends_its_tiers_and_shows_their_output(repository: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    program = f"""
import pathlib, signal, sys
sys.path.insert(0, {str(CI)!r})
import main
signal.signal(signal.SIGTERM, signal.default_int_handler)
from tiers import ROOM, Tier
tier = Tier("long", "bash -c 'echo said so far; echo $$ > {begun}; sleep 3600'", 100, 1, needs=())
sys.exit(main.main([], [tier], pathlib.Path({str(repository)!r})))
"""
    argv = [sys.executable, "-c", program]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: begun.exists() and begun.read_text().strip(), "the tier, begun")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "\nsaid so far\n" in output
    assert "interrupted; every tier that ran was ended" in output
    assert "FAILED" in rows(output)["long"]
    assert not Path("/proc", begun.read_text().strip()).exists()
