"""`ops job exec`: in which pod a command runs, what it is sent and shows, and one message for each refusal."""

import fcntl
import json
import os
import pty
import struct
import termios
from types import SimpleNamespace
from typing import Any

import kubernetes
import pytest
from kubernetes.client import ApiException
from websocket import WebSocketConnectionClosedException

from ops.jobs import pod_of_worker
from ops.jobs.head_api import HeadApi
from ops.jobs.runs import Runs
from tests.unit.ops.jobs.test_checkpoint import PODS, FakeHead, head, ops, refused, run_of_train  # noqa: F401 - fixtures
from tests.unit.ops.jobs.test_job import JOBS, REVIEWS, a_run, cluster  # noqa: F401 - a fixture
from tests.unit.ops.jobs.test_pytorchjob import PYTORCH_JOBS, a_pytorch_job
from tests.unit.ops.jobs.test_rayjob import RAY_JOBS, a_ray_job
from tests.unit.support.fake_apis import Apis

STARTED = """\
(TorchTrainer pid=11) Started distributed worker processes:
(TorchTrainer pid=11) - (node_id=0a1b, ip=10.0.0.{}, pid=7) world_rank=0, local_rank=0, node_rank=0
\x1b[36m(TorchTrainer pid=11)\x1b[0m - (node_id=0a1c, ip=10.0.0.{}, pid=7) world_rank=1, local_rank=0, node_rank=1
"""
OUTPUT = STARTED.format(8, 9) + "step 1\n" + STARTED.format(1, 2) + "step 2\n"
"""Ray Train started its workers again, on other nodes."""


class FakeShell:
    """A command that prints what it is sent, and ends with `code`."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.code = 0
        self.error: ApiException | None = None
        self.lost = False
        self.sent = b""
        self.sizes: list[bytes] = []
        self._channels = {1: b"out\xff", 2: b"err"}

    def __call__(self, _: Any, pod: str, namespace: str, **asked: Any) -> "FakeShell":
        if self.error:
            raise self.error
        self.asked = {"pod": pod, "namespace": namespace, **asked}
        return self

    def is_open(self) -> bool:
        return bool(self._channels)

    def update(self, timeout: float) -> None:
        assert timeout
        if self.lost:
            raise WebSocketConnectionClosedException

    def close(self) -> None: ...

    def write_stdin(self, piece: bytes) -> None:
        self.sent += piece

    def write_channel(self, channel: int, piece: bytes) -> None:
        assert channel == 4
        self.sizes.append(piece)

    def close_channel(self, _: int) -> None: ...

    def read_channel(self, channel: int) -> bytes:
        if channel == 3 and self.lost:
            return b""
        if channel != 3:
            return self._channels.pop(channel, b"")
        cause = {"reason": "ExitCode", "message": str(self.code)}
        failed = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
        return json.dumps(failed if self.code else {"status": "Success"}).encode()


def a_pod(name: str, address: str, phase: str = "Running") -> dict[str, Any]:
    containers = [{"name": "ray-worker"}, {"name": "beside"}]
    status = {"phase": phase, "podIP": address}
    return {"metadata": {"name": name}, "spec": {"containers": containers}, "status": status}


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, run_of_train: Apis, head: FakeHead) -> FakeShell:  # noqa: F811
    """Serve a run with two workers, and the pods that they have and had."""
    fake = FakeShell()
    monkeypatch.setattr("ops.jobs.pod_of_worker.stream", fake)
    monkeypatch.setattr("ops.jobs.pod_of_worker.HeadApi", lambda *_: head)
    monkeypatch.setattr(FakeHead, "output", lambda *_: OUTPUT, raising=False)
    run_of_train.kubernetes[PODS] = {"items": [a_pod(f"worker-{n}", f"10.0.0.{n}") for n in (9, 2, 1)]}
    return fake


@pytest.mark.parametrize(("options", "pod"), [((), "worker-1"), (("--worker", "1"), "worker-2")])
def test_command_runs_where_the_newest_workers_are_and_its_exit_code_is_passed_on(
    shell: FakeShell, options: tuple[str, ...], pod: str
) -> None:
    shell.code = 42
    result = ops("job", "exec", "train", *options, "--", "sh", "-c", "exit 42")
    assert result.exit_code == 42, result.output
    assert (result.stdout_bytes, result.stderr_bytes) == (b"out\xff", b"err")
    assert shell.asked["pod"] == pod
    assert shell.asked["container"] == "ray-worker"
    assert shell.asked["command"] == ["sh", "-c", "exit 42"]
    assert (shell.asked["stdin"], shell.asked["tty"], shell.asked["stderr"]) == (True, False, True)


def test_command_gets_the_terminal_its_size_and_its_keys(shell: FakeShell, run_of_train: Apis) -> None:  # noqa: F811
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    before = termios.tcgetattr(slave)
    kept = os.dup(0), os.dup(1)
    api = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=run_of_train.endpoint))
    pod: Any = SimpleNamespace(
        metadata=SimpleNamespace(name="worker-1"), spec=SimpleNamespace(containers=[SimpleNamespace(name="ray-worker")])
    )
    try:
        os.dup2(slave, 0)
        os.dup2(slave, 1)
        assert pod_of_worker.run_in(Runs(api, "ray"), pod, ["bash"]) == 0
    finally:
        for standard, number in enumerate(kept):
            os.dup2(number, standard)
            os.close(number)
    assert (shell.asked["tty"], shell.asked["stderr"]) == (True, False)
    assert [json.loads(size) for size in shell.sizes] == [{"Width": 100, "Height": 40}]
    assert termios.tcgetattr(slave) == before
    os.close(slave)
    os.close(master)


def test_worker_of_a_rayjob_is_looked_for_on_the_rayclusters_of_its_own(
    shell: FakeShell,
    run_of_train: Apis,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def head_of(_: Any, __: str, cluster: str) -> str:  # noqa: F811
        asked.append(cluster)
        return "head"

    monkeypatch.setattr("ops.jobs.pod_of_worker.head_of", head_of)
    del run_of_train.kubernetes[f"{JOBS}/train"]
    run_of_train.kubernetes[f"{RAY_JOBS}/train"] = a_ray_job("train", jobStatus="RUNNING", rayClusterName="train-x")
    assert ops("job", "exec", "train", "--", "true").exit_code == 0
    assert asked == ["train-x"]
    run_of_train.kubernetes[f"{RAY_JOBS}/train"] = a_ray_job("train", jobDeploymentStatus="Initializing")
    assert "the run train is not running on Ray. Fix: " in refused("job", "exec", "train", "--", "true")


def test_worker_of_a_pytorchjob_is_a_pod_of_it(shell: FakeShell, run_of_train: Apis) -> None:  # noqa: F811
    del run_of_train.kubernetes[f"{JOBS}/train"]
    made = a_pytorch_job("train", "Running")
    made["spec"] = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}
    run_of_train.kubernetes |= {f"{PYTORCH_JOBS}/train": made, PODS: {"items": [a_pod("train-worker-1", "10.0.0.1")]}}
    assert ops("job", "exec", "train", "--worker", "1", "--", "true").exit_code == 0
    assert shell.asked["pod"] == "train-worker-1"
    assert "Allowed: 0 to 1. Fix: --worker 0" in refused("job", "exec", "train", "--worker", "2", "--", "true")
    run_of_train.kubernetes[PODS] = {"items": [a_pod("train-worker-1", "", "Pending")]}
    said = refused("job", "exec", "train", "--worker", "1", "--", "true")
    assert "the pod of worker 1 of run train does not run (Pending). Fix: see `ops job list`" in said


@pytest.mark.parametrize(
    ("arguments", "answers", "code", "says"),
    [
        (("train",), {}, 2, "COMMAND is missing. Fix: write it after `--`: `ops job exec train --env dev -- nvidia"),
        (("none", "--", "true"), {}, 1, "there is no run none in namespace ray. Fix: see `ops job list`"),
        (
            ("train", "--", "true"),
            {f"{JOBS}/train": a_run("train", condition="Complete")},
            1,
            "the run train has ended. Allowed: runs that have not ended. Fix: see `ops job list`",
        ),
        (
            ("train", "--worker", "2", "--", "true"),
            {},
            1,
            "--worker: 2 is invalid: run train has 2 workers. Allowed: 0 to 1. Fix: --worker 0",
        ),
        (("train", "--", "true"), {PODS: {"items": []}}, 1, "pod of worker 0 of run train does not run (gone). Fix: "),
        (
            ("train", "--", "true"),
            {f"POST {REVIEWS}": {"spec": {}, "status": {"allowed": False}}},
            2,
            "lets only submitters run commands in pods. Fix: list your IAM role under access.submitters",
        ),
    ],
)
def test_refusals(
    shell: FakeShell,
    run_of_train: Apis,  # noqa: F811
    *,
    arguments: tuple[str, ...],
    answers: dict[str, Any],
    code: int,
    says: str,
) -> None:
    run_of_train.kubernetes |= answers
    assert says in refused("job", "exec", *arguments, code=code)
    assert shell.asked == {}


def test_job_without_workers_of_ray_train_is_refused(shell: FakeShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHead, "output", lambda *_: "step 1\n")
    said = refused("job", "exec", "train", "--", "true")
    assert "names no workers of Ray Train. Allowed: jobs that train with Ray Train" in said


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (
            "Handshake status 400 Bad Request -+-+- {} -+-+- pod ray/worker-1 is simulated: no program runs in it; "
            "`make rehearse KEEP=1 JOBS=1` runs real Ray",
            "pod ray/worker-1 does not run it: pod ray/worker-1 is simulated: no program runs in it; ",
        ),
        (
            "Handshake status 404 Not Found -+-+- {}",
            "pod ray/worker-1 does not run it: Handshake status 404 Not Found. Fix: see `ops status`",
        ),
    ],
)
def test_pod_that_runs_no_command_is_named(shell: FakeShell, reason: str, says: str) -> None:
    shell.error = ApiException(status=0, reason=reason)
    assert says in refused("job", "exec", "train", "--", "true")


def test_lost_connection_is_one_message_after_what_came(shell: FakeShell) -> None:
    shell.lost = True
    result = ops("job", "exec", "train", "--", "true")
    assert (result.exit_code, result.stdout_bytes) == (1, b"out\xff")
    assert (
        "pod ray/worker-1 does not run it: the connection ended. Fix: see `ops status`" in result.stderr_bytes.decode()
    )


def test_head_is_asked_for_the_output_so_far() -> None:
    asked: list[Any] = []

    class Api(HeadApi):
        def _json(self, *words: Any, **_: Any) -> Any:
            asked.append(words)
            return {"logs": OUTPUT}

    api: Any = object()
    assert Api(api, "ray", "head").output("train-2") == OUTPUT
    assert asked == [("GET", "/api/jobs/train-2/logs")]
