"""Test the execution environments of functions: what they keep between invocations, and when they end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.lambdas import environments, keeper
from embedded_account.lambdas.runtime import LocalRuntime
from embedded_account.machine.processes import is_alive
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import invoke, make_function, upload, zipped
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.waiting import PATIENCE_SECONDS, wait_until

COUNTER = """
import os, pathlib, sys, tempfile
print("loading")
calls = 0
def handler(event, context):
    global calls
    calls += 1
    if event.get("do") == "raise":
        raise ValueError("on purpose")
    if event.get("do") == "exit":
        sys.exit(event["code"])
    if event.get("do") == "crash":
        os._exit(3)
    if event.get("do") == "hang":
        __import__("time").sleep(600)
    if "write" in event:
        pathlib.Path(tempfile.gettempdir(), event["write"]).touch()
    return {
        "pid": os.getpid(),
        "calls": calls,
        "key": os.environ["AWS_ACCESS_KEY_ID"],
        "files": sorted(os.listdir(tempfile.gettempdir())),
        "variable": os.environ.get("VARIABLE"),
        "trace": os.environ["_X_AMZN_TRACE_ID"],
        "id": context.aws_request_id,
        "stream": context.log_stream_name,
    }
"""


@pytest.fixture
def runtime(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRuntime]:
    """Replace the account's function runtime with one of the test's own, which sees a machine with one core."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    runtime = LocalRuntime(account)
    monkeypatch.setattr(account, "functions", runtime)
    yield runtime
    runtime.close()


def call(account: Account, function: Any, **event: Any) -> dict[str, Any]:
    payload, is_error, logs = invoke(account, function, event)
    assert not is_error, logs
    found: dict[str, Any] = payload
    return found


@pytest.fixture
def patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set how long an invocation waits with an idle core and without one, and for how long cores were idle."""
    names = ("PATIENCE_SECONDS", "BUSY_PATIENCE_SECONDS", "spare_seconds")
    for name, value in zip(names, request.param, strict=True):
        monkeypatch.setattr(environments, name, value)


def test_module_is_loaded_once_for_several_invocations(account: Account) -> None:
    function = make_function(account, {"main.py": COUNTER})

    first, _, first_logs = invoke(account, function)
    second, _, second_logs = invoke(account, function)

    assert (first["calls"], second["calls"]) == (1, 2)
    assert first["pid"] == second["pid"]
    assert first_logs.splitlines()[0] == "loading"
    assert "loading" not in second_logs
    assert first["id"] != second["id"]
    assert first["trace"] != second["trace"]
    entries = [
        entry
        for entry in account.journal.entries(kind="lambda")
        if entry.get("request_id") in {first["id"], second["id"]}
    ]
    assert [entry["cold"] for entry in entries] == [True, False]


def test_environment_has_one_log_stream(account: Account, clients: Clients) -> None:
    function = make_function(account, {"main.py": COUNTER})

    answers = [call(account, function) for _ in range(2)]

    (stream,) = clients("logs").describe_log_streams(logGroupName="/aws/lambda/work")["logStreams"]
    assert {answer["stream"] for answer in answers} == {stream["logStreamName"]}
    events = clients("logs").get_log_events(logGroupName="/aws/lambda/work", logStreamName=stream["logStreamName"])
    starts = [event["message"] for event in events["events"] if event["message"].startswith("START")]
    assert [answer["id"] in start for answer, start in zip(answers, starts, strict=True)] == [True, True]


def test_functions_of_the_same_code_see_nothing_of_each_other(account: Account) -> None:
    one = make_function(account, {"main.py": COUNTER}, name="one", Environment={"Variables": {"VARIABLE": "1"}})
    two = make_function(account, {"main.py": COUNTER}, name="two", Environment={"Variables": {"VARIABLE": "2"}})

    call(account, one, write="mark")
    ones, twos = call(account, one), call(account, two)

    assert (ones["calls"], twos["calls"]) == (2, 1)
    assert (ones["files"], twos["files"]) == (["mark"], [])
    assert (ones["variable"], twos["variable"]) == ("1", "2")
    assert ones["pid"] != twos["pid"]
    assert ones["key"] != twos["key"]


def test_two_invocations_at_once_have_an_environment_each(account: Account, tmp_path: Path) -> None:
    code = (
        "import os, pathlib, time\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "def handler(event, context):\n"
        "    (folder / str(os.getpid())).touch()\n"
        "    while len(list(folder.iterdir())) < 2:\n"
        "        time.sleep(0.01)\n"
        "    return os.getpid()\n"
    )
    function = make_function(account, {"main.py": code}, Timeout=PATIENCE_SECONDS)

    with ThreadPoolExecutor(2) as pool:
        pids = {future.result()[0] for future in [pool.submit(invoke, account, function) for _ in range(2)]}

    assert len(pids) == 2
    assert invoke(account, function)[0] in pids


@pytest.mark.parametrize(
    "patience",
    [
        pytest.param(
            (float(PATIENCE_SECONDS), float(PATIENCE_SECONDS), time.monotonic), id="for a moment while a core is idle"
        ),
        pytest.param((0.01, float(PATIENCE_SECONDS), lambda: 0.0), id="for longer while none is"),
    ],
    indirect=True,
)
@pytest.mark.usefixtures("patience")
def test_invocation_waits_for_an_environment_rather_than_making_more_than_there_are_cores(
    account: Account, runtime: LocalRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    code = (
        "import os, pathlib, time\n"
        "def handler(event, context):\n"
        f"    pathlib.Path({str(begun)!r}).touch()\n"
        f"    while not os.path.exists({str(go)!r}):\n"
        "        time.sleep(0.01)\n"
        "    return os.getpid()\n"
    )
    function = make_function(account, {"main.py": code}, Timeout=PATIENCE_SECONDS)
    waits, wait = threading.Semaphore(0), runtime.environments.changed.wait

    def observed_wait(seconds: float | None = None) -> bool:
        if threading.current_thread().name.startswith("invoking"):
            waits.release()
        return wait(seconds)

    def look_again() -> None:
        with runtime.environments.changed:
            runtime.environments.changed.notify_all()

    monkeypatch.setattr(runtime.environments.changed, "wait", observed_wait)
    with ThreadPoolExecutor(2, thread_name_prefix="invoking") as pool:
        first = pool.submit(invoke, account, function)
        wait_until(begun.exists, "the first invocation")
        second = pool.submit(invoke, account, function)
        assert waits.acquire(timeout=PATIENCE_SECONDS)
        look_again()
        assert waits.acquire(timeout=PATIENCE_SECONDS), "it did not check again, or it started another environment"
        go.touch()

    assert first.result()[0] == second.result()[0]


@pytest.mark.parametrize(
    "patience",
    [
        pytest.param((0.1, float(PATIENCE_SECONDS), time.monotonic), id="a core is idle"),
        pytest.param((0.1, 0.2, lambda: 0.0), id="no core is idle"),
    ],
    indirect=True,
)
@pytest.mark.usefixtures("runtime", "patience")
def test_function_that_invokes_itself_is_not_stuck_behind_itself(account: Account) -> None:
    code = (
        "import boto3, json, os\n"
        "def handler(event, context):\n"
        "    pids = [os.getpid()]\n"
        "    if event['depth']:\n"
        "        body = json.dumps({'depth': event['depth'] - 1})\n"
        "        answer = boto3.client('lambda').invoke(FunctionName='work', Payload=body)\n"
        "        pids += json.load(answer['Payload'])\n"
        "    return pids\n"
    )
    rights = ["AWSLambda_FullAccess"]
    function = make_function(account, {"main.py": code}, policies=rights, Timeout=PATIENCE_SECONDS)

    pids, is_error, logs = invoke(account, function, {"depth": 2})

    assert not is_error, logs
    assert len(set(pids)) == 3


def test_raised_error_keeps_the_environment(account: Account) -> None:
    function = make_function(account, {"main.py": COUNTER})
    before = call(account, function)

    assert invoke(account, function, {"do": "raise"})[0]["errorType"] == "ValueError"

    after = call(account, function)
    assert (after["pid"], after["calls"]) == (before["pid"], 3)


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        ({"do": "hang"}, "Sandbox.Timedout", "Task timed out after 3.00 seconds"),
        ({"do": "crash"}, "Runtime.ExitError", "exit status 3"),
        ({"do": "exit", "code": 4}, "Runtime.ExitError", "exit status 4"),
        ({"do": "exit", "code": 0}, "Runtime.ExitError", "Runtime exited without providing a reason"),
    ],
)
def test_function_starts_cold_after_its_process_ended(
    account: Account, event: dict[str, Any], kind: str, words: str
) -> None:
    function = make_function(account, {"main.py": COUNTER}, Timeout=3)
    before = call(account, function, write="mark")

    payload, is_error, _ = invoke(account, function, event)

    assert is_error
    assert payload["errorType"] == kind
    assert words in payload["errorMessage"]
    after = call(account, function)
    assert (after["calls"], after["files"]) == (1, [])
    assert after["stream"] != before["stream"]
    assert not is_alive(before["pid"])


def test_killed_environment_is_replaced(account: Account) -> None:
    function = make_function(account, {"main.py": COUNTER})
    before = call(account, function)
    os.kill(before["pid"], signal.SIGKILL)
    wait_until(lambda: not is_alive(before["pid"]), "the end of the killed process")

    payload, is_error, _ = invoke(account, function)

    # As on AWS, the invocation fails if the runtime notices the end only after the invocation began.
    if is_error:
        assert "signal: SIGKILL" in payload["errorMessage"]
        payload = call(account, function)
    assert payload["calls"] == 1


@pytest.mark.parametrize("change", ["code", "variables", "nothing"])
def test_deployed_function_starts_cold(account: Account, change: str) -> None:
    properties: dict[str, Any] = {"Handler": "main.handler", "Runtime": "python3.13", "FunctionName": "work"}
    properties["Role"] = f"arn:aws:iam::{account.account_id}:role/work-role"
    function = make_function(account, {"main.py": COUNTER})
    before = call(account, function)
    text = COUNTER.replace("calls = 0", "calls = 100") if change == "code" else COUNTER
    properties["Code"] = upload(account, "new.zip", zipped({"main.py": text}))
    if change == "variables":
        properties["Environment"] = {"Variables": {"VARIABLE": "new"}}

    ResourceModels(account).update(function, properties)

    after = call(account, function)
    assert after["calls"] == (101 if change == "code" else 1)
    assert after["variable"] == ("new" if change == "variables" else None)
    assert not is_alive(before["pid"])


def test_setting_changed_by_api_starts_cold(account: Account, clients: Clients) -> None:
    function = make_function(account, {"main.py": COUNTER})
    call(account, function)

    clients("lambda").update_function_configuration(FunctionName="work", Environment={"Variables": {"VARIABLE": "api"}})

    after = call(account, function)
    assert (after["calls"], after["variable"]) == (1, "api")


def test_new_function_of_an_old_name_starts_cold(account: Account) -> None:
    old = make_function(account, {"main.py": COUNTER})
    call(account, old)
    ResourceModels(account).delete(old)

    new = ResourceModels(account).create(
        "AWS::Lambda::Function",
        {
            "FunctionName": "work",
            "Code": {"S3Bucket": "assets", "S3Key": "work.zip"},
            "Handler": "main.handler",
            "Runtime": "python3.13",
            "Role": f"arn:aws:iam::{account.account_id}:role/work-role",
        },
    )

    assert call(account, new)["calls"] == 1


def test_idle_environment_ends(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = LocalRuntime(account, idle_seconds=0.1)
    monkeypatch.setattr(account, "functions", runtime)
    function = make_function(account, {"main.py": COUNTER})

    pid = call(account, function)["pid"]

    wait_until(lambda: not is_alive(pid), "the end of the idle environment")
    assert call(account, function)["calls"] == 1
    runtime.close()


def test_environment_gets_no_credentials_that_are_about_to_expire(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = make_function(account, {"main.py": COUNTER})
    first, now = call(account, function), account.clock.now()
    monkeypatch.setattr(account.clock, "now", lambda: now + timedelta(minutes=39))
    second = call(account, function)
    monkeypatch.setattr(account.clock, "now", lambda: now + timedelta(minutes=41))
    third = call(account, function)

    assert (second["pid"], second["key"]) == (first["pid"], first["key"])
    assert third["calls"] == 1
    assert third["key"] != first["key"]


def test_what_a_function_leaves_running_is_frozen_until_its_next_invocation(account: Account) -> None:
    code = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "def handler(event, context):\n"
        "    return [child.pid, open(f'/proc/{child.pid}/stat').read().split()[2]]\n"
    )
    function = make_function(account, {"main.py": code})

    pid, _ = invoke(account, function)[0]

    wait_until(lambda: _state(pid) == "T", "the child's freezing")
    assert invoke(account, function)[0] in ([pid, "S"], [pid, "R"])  # Sleeping, or about to sleep if no core is idle.


def test_what_a_function_started_ends_with_the_account(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = LocalRuntime(account)
    monkeypatch.setattr(account, "functions", runtime)
    code = (
        "import os, subprocess\n"
        "def handler(event, context):\n"
        "    own_session = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "    return [os.getpid(), own_session.pid, subprocess.Popen(['sleep', '600']).pid]\n"
    )
    pids = invoke(account, make_function(account, {"main.py": code}))[0]
    assert all(map(is_alive, pids))

    runtime.close()

    assert not any(map(is_alive, pids))


def test_what_a_function_started_ends_when_the_account_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, subprocess, time\n"
        "children = [subprocess.Popen(['sleep', '600'], start_new_session=own) for own in (True, False)]\n"
        f"part = pathlib.Path({str(tmp_path / 'part')!r})\n"
        "part.write_text(' '.join(str(pid) for pid in [os.getpid(), *(child.pid for child in children)]))\n"
        f"part.rename({str(tmp_path / 'pids')!r})\n"
        "time.sleep(600)\n"
    )
    owner = subprocess.Popen(
        [
            *(
                sys.executable,
                "-c",
                "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE).wait()",
            ),
            *(sys.executable, "-I", "-S", keeper.__file__, sys.executable, "-c", script),
        ]
    )
    wait_until((tmp_path / "pids").exists, "the program's children")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    os.kill(pids[0], signal.SIGSTOP)  # A frozen process must end too.

    owner.kill()
    owner.wait()

    wait_until(lambda: not any(map(is_alive, pids)), "the end of everything")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda n: n.name)
def test_stopped_keeper_leaves_no_frozen_program(tmp_path: Path, number: signal.Signals) -> None:
    script = f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'new')!r}).write_text(str(os.getpid()))\n"
    script += f"os.rename({str(tmp_path / 'new')!r}, {str(tmp_path / 'pid')!r}); time.sleep(600)"
    argv = [sys.executable, "-I", "-S", keeper.__file__, sys.executable, "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as owner:
        wait_until((tmp_path / "pid").exists, "the program")
        program = int((tmp_path / "pid").read_text())
        os.kill(program, signal.SIGSTOP)

        owner.send_signal(number)

        owner.wait(PATIENCE_SECONDS)
    wait_until(lambda: not is_alive(program), "the end of the program")


def test_error_while_loading_is_the_payload_and_loading_is_retried(account: Account, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"import os\nif not os.path.exists({str(mark)!r}):\n    import missing\nhandler = lambda e, c: 'loaded'\n"
    function = make_function(account, {"main.py": code})

    payload, is_error, logs = invoke(account, function)

    assert is_error
    assert payload["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'missing'" in payload["errorMessage"]
    assert "ModuleNotFoundError" in logs
    mark.touch()
    assert invoke(account, function)[0] == "loaded"


def test_functions_cannot_import_this_repository(account: Account) -> None:
    code = "def handler(event, context):\n    import rehearsal\n"

    payload, _, _ = invoke(account, make_function(account, {"main.py": code}))

    assert payload["errorMessage"] == "No module named 'rehearsal'"


def test_node_loads_once_and_ends_with_an_error_that_nothing_catches(account: Account) -> None:
    code = (
        "let calls = 0;\n"
        "exports.handler = async (event) => {\n"
        "  calls += 1;\n"
        "  if (event.do === 'reject') Promise.reject(new Error('nobody waits for this'));\n"
        "  if (event.do === 'raise') throw new Error('on purpose');\n"
        "  if (event.do) await new Promise((resolve) => setTimeout(resolve, 600000));\n"
        "  return { calls, pid: process.pid };\n"
        "};\n"
    )
    function = make_function(account, {"main.js": code}, runtime="nodejs24.x", Timeout=PATIENCE_SECONDS)

    first = call(account, function)
    assert invoke(account, function, {"do": "raise"})[0]["errorMessage"] == "on purpose"
    assert call(account, function) == {"calls": 3, "pid": first["pid"]}
    assert invoke(account, function, {"do": "reject"})[0]["errorMessage"] == "nobody waits for this"
    assert call(account, function)["calls"] == 1


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
