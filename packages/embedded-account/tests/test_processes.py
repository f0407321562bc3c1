"""Test that child processes are logged, recorded and watched, and end with their parent."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from embedded_account.machine.processes import (
    ProcessError,
    ProcessSupervisor,
    ProgramEndedError,
    is_alive,
    stop_recorded,
)
from embedded_account.testing.waiting import wait_until

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
ENV = {"PATH": os.environ["PATH"]}


def test_stop_all_ends_every_child_and_forgets_it(tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path)
    pids = [supervisor.start(name, SLEEP, ENV).pid for name in ("one", "two")]
    assert all(is_alive(pid) for pid in pids)
    supervisor.stop_all()
    assert not any(is_alive(pid) for pid in pids)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_child_that_ends_before_it_is_ready_fails_with_its_log(tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path)
    argv = [sys.executable, "-c", "import sys; sys.exit('no port for me')"]
    with pytest.raises(ProcessError, match=r"server ended with code 1[\s\S]*no port for me"):
        supervisor.start("server", argv, ENV, ready=lambda: False)
    assert supervisor.children == []


def test_a_child_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path)
    with pytest.raises(ProcessError, match="was not ready in 0 s"):
        supervisor.start("slow", SLEEP, ENV, ready=lambda: False, timeout=0.2)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_missing_program_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="etcd: /nowhere/etcd cannot run: No such file"):
        ProcessSupervisor(tmp_path).start("etcd", ["/nowhere/etcd"], ENV)


def test_children_of_a_killed_parent_end(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from embedded_account.machine.processes import ProcessSupervisor\n"
        f"print(ProcessSupervisor(Path({str(tmp_path)!r})).start('child', {SLEEP!r}, {ENV!r}).pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_alive(child)
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(child), "its end")


def test_processes_of_an_earlier_run_are_ended_by_their_recorded_ids(tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path)
    pid = supervisor.start("kept", SLEEP, ENV, survives_parent=True).pid
    assert stop_recorded(tmp_path / "run") == ["kept"]
    assert not is_alive(pid)


def test_a_pid_that_belongs_to_another_program_now_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP) as stranger:  # Unlike a supervised child, this process does not lead a session.
        (tmp_path / "kept.pid").write_text(f"{stranger.pid}\n")
        assert stop_recorded(tmp_path) == []
        assert is_alive(stranger.pid)
        stranger.kill()


def test_the_end_of_a_watched_program_is_reported_with_its_log(tmp_path: Path) -> None:
    supervisor, told = ProcessSupervisor(tmp_path), list[ProgramEndedError]()
    supervisor.watch(told.append)
    child = supervisor.start("server", SLEEP, ENV)
    wait_until(child.tail, "its first line")
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: told, "the report of its end")
    assert str(told[0]) == f"server was ended by SIGKILL; its log: {tmp_path}/logs/server.log\nhere"


def test_an_unexpected_end_is_reported_once_and_an_expected_end_never(tmp_path: Path) -> None:
    supervisor, told = ProcessSupervisor(tmp_path), list[ProgramEndedError]()
    supervisor.watch(told.append)
    command = supervisor.start("command", [sys.executable, "-c", ""], ENV, ends_by_itself=True)
    supervisor.stop(supervisor.start("stopped", SLEEP, ENV))
    command.wait()
    for number, name in enumerate(("first", "second")):
        ended = supervisor.start(name, SLEEP, ENV)
        os.kill(ended.pid, signal.SIGKILL)
        wait_until(partial(told.__getitem__, slice(number, None)), "the report of its end")
    assert [str(each).split()[0] for each in told] == ["first", "second"]


def test_a_restartable_program_is_restarted_a_limited_number_of_times(tmp_path: Path) -> None:
    supervisor, told = ProcessSupervisor(tmp_path), list[ProgramEndedError]()
    supervisor.watch(told.append, restarted=["kwok"])
    child = supervisor.start("kwok", SLEEP, ENV)

    def runs_after(restarts: int) -> bool:
        return child.restarts == restarts and child.returncode is None

    for restarts in range(4):
        wait_until(partial(runs_after, restarts), "its start")
        assert told == []
        assert (tmp_path / "run" / "kwok.pid").read_text() == f"{child.pid}\n"
        os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: told, "the report of its last end")
    assert child.restarts == 3
    supervisor.stop_all()
    assert list((tmp_path / "run").iterdir()) == []


def test_who_reads_a_pid_file_during_a_restart_finds_a_whole_pid(tmp_path: Path) -> None:
    supervisor = ProcessSupervisor(tmp_path)
    supervisor.watch(lambda _: None, restarted=["kwok"])
    child = supervisor.start("kwok", SLEEP, ENV)
    pid = child.pid
    with (tmp_path / "run" / "kwok.pid").open() as opened_before:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: child.restarts == 1 and child.returncode is None, "its restart")
        assert opened_before.read() == f"{pid}\n"
    supervisor.stop_all()


def test_processes_of_a_child_end_with_it(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); import time; time.sleep(60)"
    )
    supervisor = ProcessSupervisor(tmp_path)
    child = supervisor.start("parent", [sys.executable, "-c", script, "sleep", "60"], ENV)
    wait_until(child.tail, "the pid of its own child")
    supervisor.stop_all()
    wait_until(lambda: not is_alive(int(child.tail())), "the end of its own child")
