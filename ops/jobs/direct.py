"""Submit jobs without a supervisor, as the walkthrough does: Ray's API through a port-forward, or in the head pod.

Such a job is lost with its head: nothing resubmits it.
"""

import base64
import json
import shlex
import sys
import uuid
from typing import Any, Final

import kubernetes
import yaml
from kubernetes.client import ApiException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import ERROR_CHANNEL
from rich.console import Console

from ops.jobs.head_api import ENDED, HeadApi, heads
from ops.jobs.run import RunError, RunRequest
from ops.readiness.simulated import explanation, explanation_of_pod
from ops.sign_of_life import SILENCE

_STOPPED: Final = 130
_SUBMIT: Final = ("ray", "job", "submit", "--address", "http://127.0.0.1:8265")


def head_of(core: kubernetes.client.CoreV1Api, namespace: str, cluster: str) -> str:
    """Return the name of a RayCluster's head pod. Raises RunError if no head is running."""
    found = heads(core, namespace, cluster)
    if not found:
        raise RunError(f"RayCluster {cluster} has no running head. Fix: see `ops status` for the reason")
    return found[0]


def refuse_simulated(core: kubernetes.client.CoreV1Api, namespace: str, cluster: str) -> None:
    """Raise RunError if the RayCluster's head is simulated (a rehearsal's): without Ray in it, no job would start."""
    for pod in heads(core, namespace, cluster):
        if simulated := explanation_of_pod(core, namespace, pod):
            raise RunError(
                f"no job can run on RayCluster {cluster}: {simulated}. Fix: `make rehearse KEEP=1 JOBS=1` keeps a "
                "rehearsal in which jobs run"
            )


def submit(head: HeadApi, request: RunRequest) -> None:
    """Submit a job under the run's name. Raises RunError, HeadUnreachableError and RayApiError."""
    if any(job.get("submission_id") == request.name for job in head.jobs()):
        raise RunError(f"Ray already has a job named {request.name}. Fix: choose another with --name")
    runtime_env = _runtime_env(request)
    if request.package:
        head.upload(request.package.name, request.package.content)
        runtime_env["working_dir"] = request.package.uri
    head.submit({"submission_id": request.name, "entrypoint": request.started, "runtime_env": runtime_env})


@SILENCE.wanted()
def follow(head: HeadApi, name: str, console: Console) -> int:
    """Show a job's output until it ends; return its exit code. Raises HeadUnreachableError and RayApiError."""
    shown = 0
    while True:
        printed = 0
        for text in head.tail(name):
            printed += len(text)
            new = text[max(0, len(text) - (printed - shown)) :] if printed > shown else ""
            _print(new, console)
            shown = max(shown, printed)
        job = head.job(name)
        if job["status"] in ENDED:
            # Ray 2.42.1 may end the stream without what the job printed in its last second: controllers/job_output.py.
            _print(head.output(name)[shown:], console)
            break
    if job["status"] == "SUCCEEDED":
        return 0
    if job["status"] == "STOPPED":
        return _STOPPED
    if job.get("driver_exit_code") is None:
        _print(f"{job.get('message') or ''}\n", console)
    code = int(job.get("driver_exit_code") or 1)
    return code if code > 0 else 128 - code


def _print(text: str, console: Console) -> None:
    console.print(text, end="", soft_wrap=True, markup=False, highlight=False)


def submit_in_head(core: kubernetes.client.CoreV1Api, namespace: str, pod: str, request: RunRequest) -> int:
    """Run `ray job submit` in the head pod, show its output, return its exit code. Raises RunError."""
    package = request.package
    try:
        shell = stream(
            core.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            command=["/bin/bash", "-lc", script(request)],
            stdin=True,
            stdout=True,
            stderr=True,
            tty=False,
            _preload_content=False,
        )
    except ApiException as error:
        if simulated := explanation(error):
            raise RunError(f"the head {namespace}/{pod} cannot run the job: {simulated}") from error
        raise
    if package:
        shell.write_stdin(base64.b64encode(package.content).decode())
    while shell.is_open():
        shell.update(timeout=1)
        if shell.peek_stdout():
            sys.stdout.write(shell.read_stdout())
        if shell.peek_stderr():
            sys.stderr.write(shell.read_stderr())
        sys.stdout.flush()
    return exit_code(shell, f"the head {namespace}/{pod}")


def exit_code(shell: Any, where: str) -> int:
    """Return the exit code of a command that ended in a pod. Raises RunError if `where` did not run it."""
    status = yaml.safe_load(shell.read_channel(ERROR_CHANNEL)) or {}
    if status.get("reason") == "NonZeroExitCode":
        return int(status["details"]["causes"][0]["message"])
    if status.get("status") != "Success":
        message = str(status.get("message") or "the connection ended")
        raise RunError(f"{where} does not run it: {explanation(message) or message}. Fix: see `ops status`")
    return 0


def script(request: RunRequest) -> str:
    """Return the head's shell command. It reads the package's exact size from stdin, as exec cannot signal its end."""
    words = [*_SUBMIT, "--submission-id", request.name, "--runtime-env-json", json.dumps(_runtime_env(request))]
    if not request.package:
        return shlex.join([*words, "--", *shlex.split(request.started)])
    size = len(base64.b64encode(request.package.content))
    unpack = (
        "folder=$(mktemp -d)",
        f'head -c {size} | base64 -d > "$folder/package.zip"',
        'python -m zipfile -e "$folder/package.zip" "$folder/work"',
        'cd "$folder/work"',
    )
    submitted = shlex.join([*words, "--working-dir", ".", "--", *shlex.split(request.started)])
    return " && ".join((*unpack, submitted))


def _runtime_env(request: RunRequest) -> dict[str, Any]:
    """Return the job's runtime environment without its working directory."""
    series = uuid.uuid4().hex
    own = {"RUN_NAME": request.name, "RUN_ATTEMPT": "1", "RUN_SERIES": series, "RUN_STORAGE": request.storage}
    if request.package:
        # As controllers/ray_jobs_api.py does for the other routes.
        own["RAY_CHDIR_TO_TRIAL_DIR"] = "0"
    installed = {"pip": {"packages": list(request.pip)}} if request.pip else {}
    return {"env_vars": {**request.variables, **own}, **installed}
