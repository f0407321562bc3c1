"""Test that no configuration of the caller reaches a child process of the rehearsal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_account.machine.isolation import child_environment
from embedded_account.testing.waiting import PATIENCE_SECONDS

CALLER = {
    "AWS_PROFILE": "production",
    "AWS_ACCESS_KEY_ID": "AKIAREALREALREALREAL",
    "AWS_SECRET_ACCESS_KEY": "real",
    "AWS_SESSION_TOKEN": "real",
    "AWS_CONFIG_FILE": "/home/someone/.aws/config",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.2/x",
    "AWS_ENDPOINT_URL_S3": "https://s3.amazonaws.com",
    "KUBECONFIG": "/home/someone/.kube/config",
    "HELM_NAMESPACE": "production",
    "CDK_DEFAULT_ACCOUNT": "999999999999",
    "HTTPS_PROXY": "http://proxy.example.com:3128",
    "PYTHONPATH": "/home/someone/lib",
    "NODE_OPTIONS": "--require /home/someone/hook.js",
}


def test_no_variable_of_the_caller_s_reaches_a_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in CALLER.items():
        monkeypatch.setenv(name, value)
    environment = child_environment(tmp_path, region="us-west-2", account_id="111122223333")
    assert {name: environment[name] for name in CALLER if environment.get(name) == CALLER[name]} == {}
    assert {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "HTTPS_PROXY"} & set(
        environment
    ) == set()


def test_every_home_and_configuration_file_lies_below_the_directory(tmp_path: Path) -> None:
    environment = child_environment(tmp_path, region="us-west-2", account_id="111122223333")
    names = [name for name in environment if name.endswith(("HOME", "_FILE", "CONFIG", "TMPDIR", "_cache"))]
    assert {"HOME", "KUBECONFIG", "AWS_CONFIG_FILE", "CDK_HOME", "HELM_CACHE_HOME"} <= set(names)
    assert all(environment[name].startswith(str(tmp_path)) for name in names)


def test_python_keeps_its_bytecode_as_it_does_for_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in child_environment(tmp_path, region="us-west-2", account_id="111122223333")


def test_without_an_endpoint_an_aws_call_fails_instead_of_leaving_the_machine(tmp_path: Path) -> None:
    environment = child_environment(tmp_path, region="us-west-2", account_id="111122223333")
    code = (
        "import boto3, botocore.config, json\n"
        "try: boto3.client('sts', config=botocore.config.Config(retries={'max_attempts': 0})).get_caller_identity()\n"
        "except Exception as error: print(json.dumps(str(error)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert "http://127.0.0.1:1" in json.loads(result.stdout)
