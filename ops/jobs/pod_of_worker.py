"""Run a command in the pod of one worker of a running job."""

import contextlib
import json
import os
import re
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from typing import Any, Final

import websocket
from kubernetes.client import ApiException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import RESIZE_CHANNEL, STDERR_CHANNEL, STDIN_CHANNEL, STDOUT_CHANNEL

from ops.clients import REQUEST_TIMEOUT
from ops.errors import UnreachableError
from ops.jobs.checkpoint import job_of
from ops.jobs.direct import exit_code, head_of, refuse_simulated
from ops.jobs.head_api import HeadApi
from ops.jobs.kind import JobKind
from ops.jobs.operators.rayjob import SubmittedRayJobs
from ops.jobs.run import ExistingRun, RunError
from ops.jobs.runs import Runs
from ops.readiness.simulated import explanation

# Ray Train prints all workers of a group, rank 0 first (ray: train/_internal/backend_executor.py).
_WORKER: Final = re.compile(r"\(node_id=\w+, ip=([^,\s]+), pid=\d+\) world_rank=(\d+),")
_PIECE_BYTES: Final = 64 * 1024
_STDIN: Final = 0
_STDOUT: Final = 1


def pod_of(runs: Runs, name: str, worker: int) -> Any:
    """Return the running pod of a worker.

    Raises UnreachableError, RunError, CheckpointError, HeadUnreachableError and RayApiError.
    """
    if not runs.may_reach_pods("exec"):
        raise UnreachableError(
            "the Kubernetes API lets only submitters run commands in pods. "
            "Fix: list your IAM role under access.submitters of the environment, then deploy the eks stack"
        )
    run = runs.running(name)
    pod = _on_ray(runs, run, worker) if run.kind.on_ray else _without_ray(runs, name, worker)
    phase = "gone" if pod is None or pod.metadata.deletion_timestamp else pod.status.phase
    if phase != "Running":
        raise RunError(
            f"the pod of worker {worker} of run {name} does not run ({phase}). "
            "Fix: see `ops job list` for what the run waits for, then run the command again"
        )
    return pod


def run_in(runs: Runs, pod: Any, command: Sequence[str]) -> int:
    """Run a command in the first container of a pod, with this process's stdin; return its exit code.

    It gets a terminal if this process has one. Raises RunError.
    """
    terminal = os.isatty(_STDIN) and os.isatty(_STDOUT)
    where = f"pod {runs.namespace}/{pod.metadata.name}"
    try:
        shell = stream(
            runs.core.connect_get_namespaced_pod_exec,
            pod.metadata.name,
            runs.namespace,
            container=pod.spec.containers[0].name,
            command=list(command),
            stdin=True,
            stdout=True,
            stderr=not terminal,
            tty=terminal,
            binary=True,
            _preload_content=False,
        )
    except ApiException as error:
        # The web socket's error text ends with the answer's headers.
        reason = explanation(error) or str(error.reason).partition(" -+-+- ")[0]
        raise RunError(f"{where} does not run it: {reason}. Fix: see `ops status`") from error
    with _as_its_terminal(shell) if terminal else contextlib.nullcontext():
        threading.Thread(target=_feed, args=(shell,), daemon=True).start()
        # A server may end the connection without a word, also after the command's end.
        with contextlib.suppress(OSError, websocket.WebSocketException):
            while shell.is_open():
                shell.update(timeout=1)
                _show(shell)
        shell.close()
        _show(shell)
    return exit_code(shell, where)


def _without_ray(runs: Runs, name: str, worker: int) -> Any | None:
    workers, pod = runs.worker(name, worker)
    _require(name, worker, workers)
    return pod


def _on_ray(runs: Runs, run: ExistingRun, worker: int) -> Any | None:
    """Return the pod with the address at which the job's output places the worker; None if it is gone."""
    cluster = _ray_cluster(runs, run)
    refuse_simulated(runs.core, runs.namespace, cluster)
    head = HeadApi(runs.core, runs.namespace, head_of(runs.core, runs.namespace, cluster))
    addresses = _addresses(head.output(job_of(head, run.name).id))
    if not addresses:
        raise RunError(
            f"the output of run {run.name} names no workers of Ray Train. Allowed: jobs that train with Ray Train, "
            f"once their workers have started. Fix: see `ops job logs {run.name}`, then run the command again"
        )
    _require(run.name, worker, len(addresses))
    pods = runs.core.list_namespaced_pod(
        runs.namespace, label_selector=f"ray.io/cluster={cluster}", _request_timeout=REQUEST_TIMEOUT
    ).items
    return next((pod for pod in pods if pod.status.pod_ip == addresses[worker]), None)


def _ray_cluster(runs: Runs, run: ExistingRun) -> str:
    """Return the RayCluster on which a run is; a RayJob has its own."""
    if run.kind is not JobKind.RAYJOB:
        return run.cluster
    made = SubmittedRayJobs(runs.core.api_client, runs.namespace).get(run.name) or {}
    own = made.get("status", {}).get("rayClusterName")
    if not own:
        raise RunError(f"the run {run.name} is not running on Ray. Fix: see `ops job list` for its state")
    return str(own)


def _addresses(output: str) -> list[str]:
    """Return the addresses of the newest group of workers, by rank."""
    found: list[str] = []
    for address, rank in _WORKER.findall(output):
        if int(rank) == 0:
            found = []
        found.append(address)
    return found


def _require(name: str, worker: int, workers: int) -> None:
    if worker >= workers:
        raise RunError(
            f"--worker: {worker} is invalid: run {name} has {workers} workers. Allowed: 0 to {workers - 1}. "
            "Fix: --worker 0"
        )


def _feed(shell: Any) -> None:
    """Send stdin to the command until either ends."""
    with contextlib.suppress(OSError, websocket.WebSocketException):
        while piece := os.read(_STDIN, _PIECE_BYTES):
            shell.write_stdin(piece)
    with contextlib.suppress(OSError, websocket.WebSocketException):
        shell.close_channel(STDIN_CHANNEL)


def _show(shell: Any) -> None:
    for channel, output in ((STDOUT_CHANNEL, sys.stdout), (STDERR_CHANNEL, sys.stderr)):
        if piece := shell.read_channel(channel):
            output.buffer.write(piece)
            output.flush()


@contextlib.contextmanager
def _as_its_terminal(shell: Any) -> Iterator[None]:
    """Let the command have every key and the terminal's size; restore the terminal afterwards."""

    def resize(*_: object) -> None:
        size = os.get_terminal_size(_STDOUT)
        shell.write_channel(RESIZE_CHANNEL, json.dumps({"Width": size.columns, "Height": size.lines}).encode())

    before, earlier = termios.tcgetattr(_STDIN), signal.signal(signal.SIGWINCH, resize)
    try:
        tty.setraw(_STDIN)
        resize()
        yield
    finally:
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, earlier)
