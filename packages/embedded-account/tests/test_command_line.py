"""Test `python -m embedded_account run -- COMMAND`."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import living
from embedded_account.testing.waiting import PATIENCE_SECONDS, wait_until

README: Final = Path(__file__).parents[1] / "README.md"
SAY_WHO: Final = "import boto3, json; print(json.dumps(boto3.client('sts').get_caller_identity()))"


def run(directory: Path, environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "embedded_account", *words]
    return subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_command_gets_an_account_and_its_exit_code_is_returned(tmp_path: Path, environment: Mapping[str, str]) -> None:
    say_who = f"{SAY_WHO}; raise SystemExit(3)"
    done = run(tmp_path, environment, "run", "--account-id=444455556666", "--", "python", "-c", say_who)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["Account"] == "444455556666"
    assert living(tmp_path / ".embedded-account") == {}


def test_commands_see_nothing_of_the_callers_aws(tmp_path: Path, environment: Mapping[str, str]) -> None:
    own = {"AWS_PROFILE": "production", "AWS_SESSION_TOKEN": "real", "KUBECONFIG": "/home/ann/.kube/config"}
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(run(tmp_path, {**environment, **own}, "run", "--", "python", "-c", show).stdout)
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & seen.keys()
    assert seen["KUBECONFIG"].startswith(str(tmp_path))
    assert seen["AWS_ENDPOINT_URL"].startswith("http://localhost:")
    # The home of each run is new, but what jsii unpacked for a synthesis is kept for later runs.
    kept = Path(environment["XDG_CACHE_HOME"], "embedded-account", "jsii").resolve()
    assert Path(seen["JSII_RUNTIME_PACKAGE_CACHE_ROOT"]).resolve() == kept


FUNCTION: Final = """
import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_, aws_sqs as sqs
app = cdk.App()
stack = cdk.Stack(app, "one")
cdk.CfnOutput(stack, "Queue", value=sqs.CfnQueue(stack, "Q").attr_queue_name)
code = lambda_.Code.from_inline("def handler(event, context): return event['n'] + 1")
lambda_.Function(
    stack, "F", function_name="f", runtime=lambda_.Runtime.PYTHON_3_13, handler="index.handler", code=code
)
app.synth()
"""
CALL: Final = (
    "import boto3; print(boto3.client('lambda').invoke(FunctionName='f', Payload='{\"n\": 1}')['Payload'].read())"
)


def test_an_app_without_a_cluster_but_with_a_type_of_the_readme_builds_no_kubernetes(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    known = Path(environment["XDG_CACHE_HOME"], "embedded-account", "jsii").resolve()
    cache = tmp_path / "empty" / "embedded-account"
    cache.mkdir(parents=True)
    (cache / "jsii").symlink_to(known)
    (tmp_path / "app.py").write_text(FUNCTION)
    (tmp_path / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py"}))
    (tmp_path / "call.py").write_text(CALL)
    [queues] = [code for code in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "SQS" in code]
    (tmp_path / "queues.py").write_text(queues)
    steps = f"cdk bootstrap && cdk deploy --all --require-approval never && {sys.executable} call.py"
    new = {**environment, "XDG_CACHE_HOME": str(cache.parent)}
    done = run(tmp_path, new, "run", "--extension=queues", "--", "sh", "-c", f"{steps} && cdk destroy --all --force")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "b'2'" in done.stdout
    assert "embedded account: the first EKS cluster builds Kubernetes, in about five minutes" in done.stderr
    assert not [*cache.rglob("kube-apiserver"), *cache.rglob("etcd")]


def test_a_folder_serves_one_account_at_a_time(tmp_path: Path, environment: Mapping[str, str]) -> None:
    again = (sys.executable, "-m", "embedded_account", "run", "--", "true")
    done = run(tmp_path, environment, "run", "--", "env", f"XDG_CACHE_HOME={environment['XDG_CACHE_HOME']}", *again)
    assert done.returncode == 1
    directory = tmp_path / ".embedded-account"
    assert f"embedded account: another account is served in {directory}. Fix: end it" in done.stderr
    assert "Traceback" not in done.stderr


def test_command_ends_with_its_account_whatever_it_has_started(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """The CDK CLI would ask an account that has ended for more than a minute."""
    forever = "sleep 86400 & echo $! > started; sleep 86400"
    argv = [sys.executable, "-m", "embedded_account", "run", "--", "sh", "-c", forever]
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "started").exists, "the command")
        directory = tmp_path / ".embedded-account"
        os.kill(int((directory / "run" / "account.pid").read_text()), signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert f"embedded account: account was ended by SIGKILL; its log: {directory}/logs/account.log" in said
    assert "Traceback" not in said
    assert living(directory) == {}


def test_background_process_of_a_command_ends_with_its_account(tmp_path: Path, environment: Mapping[str, str]) -> None:
    done = run(tmp_path, environment, "run", "--", "sh", "-c", "sleep 86400 > /dev/null 2>&1 &")
    assert done.returncode == 0, done.stderr
    assert living(tmp_path / ".embedded-account") == {}


def test_failure_that_follows_from_the_end_of_the_account_names_that_end(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    program = """
import os, signal, subprocess
from pathlib import Path
from embedded_account.machine.processes import ProcessError, is_alive
from embedded_account.running import serve
try:
    with serve("account"):
        pid = int(Path("account/run/account.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid): pass
        subprocess.run(["false"], check=True)
except ProcessError as error:
    print(error)
"""
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "account was ended by SIGKILL" in done.stdout, done.stderr


def test_unknown_command_prints_the_usage(tmp_path: Path, environment: Mapping[str, str]) -> None:
    done = run(tmp_path, environment, "start")
    assert done.returncode == 2
    assert "usage: python -m embedded_account run" in done.stderr
