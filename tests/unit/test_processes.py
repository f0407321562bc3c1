"""Children are logged, recorded, and never outlive whoever started them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.processes import ProcessFailure, Supervisor, is_alive, stop_recorded
from tests.waiting import wait_until

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
ENV = {"PATH": os.environ["PATH"]}


def test_stop_all_ends_every_child_and_forgets_it(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    pids = [supervisor.start(name, SLEEP, ENV).pid for name in ("one", "two")]
    assert all(is_alive(pid) for pid in pids)
    supervisor.stop_all()
    assert not any(is_alive(pid) for pid in pids)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_child_that_ends_before_it_is_ready_fails_with_its_log(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    argv = [sys.executable, "-c", "import sys; sys.exit('no port for me')"]
    with pytest.raises(ProcessFailure, match=r"server ended with code 1[\s\S]*no port for me"):
        supervisor.start("server", argv, ENV, ready=lambda: False)
    assert supervisor.children == []


def test_a_child_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    with pytest.raises(ProcessFailure, match="was not ready in 0 s"):
        supervisor.start("slow", SLEEP, ENV, ready=lambda: False, timeout=0.2)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_missing_program_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailure, match="etcd: /nowhere/etcd could not be started: No such file"):
        Supervisor(tmp_path).start("etcd", ["/nowhere/etcd"], ENV)


def test_a_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from rehearsal.processes import Supervisor\n"
        f"print(Supervisor(Path({str(tmp_path)!r})).start('child', {SLEEP!r}, {ENV!r}).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_alive(child)
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(child), "its end")


def test_what_an_earlier_run_left_is_ended_by_its_own_id(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    pid = supervisor.start("kept", SLEEP, ENV, survives_parent=True).pid
    assert stop_recorded(tmp_path / "run") == ["kept"]
    assert not is_alive(pid)


def test_a_pid_that_belongs_to_another_program_now_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP) as stranger:  # not the leader of a session, as a supervised child is
        (tmp_path / "kept.pid").write_text(f"{stranger.pid}\n")
        assert stop_recorded(tmp_path) == []
        assert is_alive(stranger.pid)
        stranger.kill()
