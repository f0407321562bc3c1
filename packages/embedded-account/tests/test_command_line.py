"""Test `python -m embedded_account run -- COMMAND`."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import living

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


def test_unknown_command_prints_the_usage(tmp_path: Path, environment: Mapping[str, str]) -> None:
    done = run(tmp_path, environment, "start")
    assert done.returncode == 2
    assert "usage: python -m embedded_account run" in done.stderr
