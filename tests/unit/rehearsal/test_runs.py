"""The folders of runs: which process holds them, which processes run in them, and what `clean` removes."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_account.machine import processes
from embedded_account.machine.processes import ProcessSupervisor, is_alive, living
from rehearsal import __main__, disk, paths, runs
from tests.support.waiting import wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
HOLD = "import sys, pathlib, time\nfrom rehearsal import runs\n"
HOLD += "with runs.held(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a stand-in for `.rehearsal` with the folders of two environments, and those that are no environment's."""
    for name in ("cache/bin", "runs/dev", "runs/cache", "drills/account", "drills/kubernetes", "job"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    return tmp_path


@contextmanager
def sleeping(env: Mapping[str, str]) -> Iterator[int]:
    """Start a process with these environment variables, and yield its pid."""
    with subprocess.Popen(SLEEP, env=env) as process:
        # Until then, the process still has the variables of this one.
        wait_until(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), "its start")
        yield process.pid
        process.kill()


@contextmanager
def holding(directory: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that holds a folder, as a running rehearsal does."""
    argv = [sys.executable, "-c", HOLD, str(directory)]
    with subprocess.Popen(argv, cwd=paths.REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def typed(*words: str) -> tuple[int, str]:
    """Return exit code and output of a command."""
    handler = signal.getsignal(signal.SIGTERM)
    result = CliRunner().invoke(__main__.app, list(words))
    signal.signal(signal.SIGTERM, handler)
    return result.exit_code, result.output.replace("\n", " ")


def test_no_environment_s_folder_has_another_purpose(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [paths.CACHE, paths.DRILLS_IN_AN_ACCOUNT, paths.DRILLS_ON_KUBERNETES, paths.JOB]
    for name in ("cache", "runs", "drills", "job", "account", "kubernetes"):
        folder = paths.run_directory(name)
        assert not [each for each in others if each.is_relative_to(folder) or folder.is_relative_to(each)]
    assert {each.relative_to(root).as_posix() for each in runs.directories()} == {
        *("runs/dev", "runs/cache", "drills/account", "drills/kubernetes", "job")
    }


def test_a_folder_is_held_by_one_process_and_by_none_after_its_end(root: Path) -> None:
    directory = root / "runs" / "dev"
    with holding(directory) as process:
        with pytest.raises(runs.UnderWayError, match=rf"{directory} is under way \(process {process.pid}\)"):
            runs.held(directory).__enter__()
        process.kill()
        process.wait()
        with runs.held(directory):
            pass


def test_processes_of_a_run_are_found_by_their_home_and_ended(root: Path) -> None:
    directory = root / "runs" / "dev"
    with sleeping({"HOME": str(directory / "account" / "home")}) as pid:
        assert set(living(directory)) == {pid}
        assert living(root / "runs" / "de") == {}
        runs.end(directory)
        assert not is_alive(pid)


def test_a_dying_process_without_its_environment_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = root / "runs" / "dev"
    seen: list[int] = []

    def dies_slowly(pid: int) -> bool:
        seen.append(pid)
        return len(seen) < 3

    with sleeping({"HOME": str(directory / "account" / "home")}) as pid:
        monkeypatch.setattr(processes, "living", lambda _: {} if seen else {pid: "sleep"})
        monkeypatch.setattr(processes, "_SETTLING_SECONDS", 0)
        monkeypatch.setattr(processes, "is_alive", dies_slowly)
        assert runs.end(directory) == ["sleep"]
    assert seen == [pid] * 3


def test_a_shell_that_inspects_a_run_is_not_one_of_its_processes(root: Path) -> None:
    directory = root / "runs" / "dev"
    looks = {"HOME": "/home/ann", "KUBECONFIG": f"{directory}/admin.kubeconfig", "PWD": str(directory)}
    with sleeping(looks) as pid:
        assert runs.end(directory) == []
        assert is_alive(pid)


def test_down_ends_what_was_kept(root: Path) -> None:
    directory = root / "runs" / "dev"
    variables = {"HOME": str(directory), "PATH": os.environ["PATH"]}
    pid = ProcessSupervisor(directory).start("account", SLEEP, variables, survives_parent=True).pid
    assert typed("down") == (0, "ended: account ")
    assert not is_alive(pid)
    assert typed("down") == (0, "nothing was running ")


def test_down_names_a_running_rehearsal_and_ends_it_only_with_force(root: Path) -> None:
    directory = root / "runs" / "dev"
    with holding(directory) as process, sleeping({"HOME": str(directory / "home")}) as pid:
        code, said = typed("down")
        assert code == 1
        assert f"a rehearsal in {directory} is under way (process {process.pid})" in said
        assert "make rehearse-down FORCE=1" in said
        assert is_alive(process.pid)
        assert is_alive(pid)
        code, said = typed("down", "--force")
        assert code == 0
        assert f"ended: the rehearsal in {directory}" in said
        assert not is_alive(process.pid)
        assert not is_alive(pid)


def test_clean_removes_finished_runs_and_keeps_running_ones(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "kept", list)
    held, kept, over = root / "runs" / "dev", root / "drills" / "account", root / "runs" / "cache"
    with holding(held), sleeping({"HOME": str(kept / "home")}):
        code, said = typed("clean")
        assert code == 0
        assert [each.is_dir() for each in (held, kept, over, root / "cache" / "bin")] == [True, True, False, True]
        assert f"{held} stays: a rehearsal runs there" in said
        assert f"{kept} stays: a rehearsal runs there" in said
    typed("clean")
    assert runs.directories() == []


def test_a_discarded_folder_is_gone_at_once_and_removed_soon_with_one_that_an_interrupted_run_left(root: Path) -> None:
    directory, interrupted = root / "runs" / "dev", root / "runs" / "dev.discarded"
    for folder in (directory, interrupted):
        (folder / "account").mkdir(parents=True)
        (folder / "account" / "journal.jsonl").write_text("{}")
    runs.discard(directory)
    assert not directory.exists()
    assert directory not in runs.directories()
    wait_until(lambda: not interrupted.exists(), "the removal")
    runs.discard(directory)


def test_clean_removes_what_an_interrupted_run_discarded(root: Path) -> None:
    (root / "runs" / "dev.discarded" / "account").mkdir(parents=True)
    assert root / "runs" / "dev.discarded" not in runs.directories()
    assert runs.remove(root / "runs" / "dev")
    assert {each.name for each in (root / "runs").iterdir()} == {"cache", "dev.lock"}


def test_a_lock_that_was_never_written_ends_nobody(root: Path) -> None:
    """An empty lock must not be read as process 0: a signal to it would hit the sender's own process group."""
    directory = root / "runs" / "dev"
    with (directory.parent / "dev.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert typed("down", "--force")[0] == 1
