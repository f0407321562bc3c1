"""The tuned model, served over HTTP by real Ray Serve."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from embedded_account.machine.processes import free_port
from serve_finetuned import MOST, Completions, asked, main
from tests.jobs.support.paths import RAY_JOBS
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Attempt, Runs
from tests.jobs.support.tiny_llama import make_model
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

SCRIPT = RAY_JOBS / "serve_finetuned.py"


def post(port: int, path: str, body: bytes) -> tuple[int, str]:
    """Return status and text of an answer; 0 if there is none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, HTTPException):
        return 0, ""
    finally:
        connection.close()


def replicas(app: str) -> list[int]:
    """Return the processes of an application's replicas."""
    title = f"ray::ServeReplica:{app}:".encode()
    return [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if _read(file).startswith(title)]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.sampled(1, of="examples")
def test_served_model_completes_as_the_model_itself_and_survives_a_killed_replica(
    nodes: Nodes, runs: Runs, tmp_path: Path
) -> None:
    make_model(tmp_path / "model")
    prompt = "the run waits"
    expected = Completions(str(tmp_path / "model"), gpu=False).complete(prompt, 5)
    assert expected
    name, port = f"tuned-{free_port()}", free_port()
    env = {**os.environ, "RAY_ADDRESS": nodes.address, "RUN_NAME": name, "PYTHONUNBUFFERED": "1"}
    ask = partial(post, port, f"/{name}")
    body, answer = json.dumps({"prompt": prompt, "tokens": 5}).encode(), f'{{"completion":"{expected}"}}'
    words = [sys.executable, str(SCRIPT), f"--model={tmp_path / 'model'}", f"--port={port}"]
    with runs.log.open("ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=env)
    job = Attempt(process, runs.log, 0)
    try:
        serves = f"on http://127.0.0.1:{port}/{name}"
        wait_until(lambda: serves in job.output or process.poll() is not None, "a model", REHEARSAL_PATIENCE_SECONDS)
        assert process.poll() is None, job.output
        assert ask(body) == (200, answer)
        status, said = ask(b'{"tokens": 5}')
        assert (status, "it has no prompt" in said) == (400, True)

        [killed] = replicas(name)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: replicas(name) not in ([], [killed]), "a new replica", REHEARSAL_PATIENCE_SECONDS)
        wait_until(lambda: ask(body) == (200, answer), "its answer", REHEARSAL_PATIENCE_SECONDS)

        process.send_signal(signal.SIGTERM)
        assert job.wait() == 0, job.output
        assert "serves no longer" in job.output
        assert (ask(body), replicas(name)) == ((0, ""), [])
    finally:
        process.kill()
        process.wait()


def test_folder_without_a_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), f"--model={tmp_path}"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"--model {tmp_path} is invalid: it has no config.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([], "it has no prompt"),
        ({"prompt": ""}, "it has no prompt"),
        ({"prompt": 7}, "it has no prompt"),
        ({"prompt": "a", "tokens": 0}, "tokens 0 is invalid"),
        ({"prompt": "a", "tokens": MOST + 1}, f"tokens {MOST + 1} is invalid"),
        ({"prompt": "a", "tokens": "many"}, "tokens many is invalid"),
    ],
)
def test_request_that_is_not_valid_is_refused_with_what_is_allowed(body: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        asked(body)
