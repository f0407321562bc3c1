"""Test the account as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec
from urllib.parse import parse_qs, quote, urlsplit

import boto3
import pytest
import requests
from botocore.config import Config

from embedded_account import server
from embedded_account.context import Account
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.pods.programs import RealRay
from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import ProcessSupervisor, free_port
from embedded_account.run_keys import RunKeys
from embedded_account.running import EmbeddedAccount
from embedded_account.services.eks.host import make_control_plane
from embedded_account.testing import plugin
from embedded_account.testing.clients import NODE_MODULES, Clients
from embedded_account.testing.waiting import PATIENCE_SECONDS

KEYS = RunKeys.issue()
WRITTEN = ("logs/account.log", "journal.jsonl")


def start(directory: Path, port: int, *more: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "embedded_account", "serve", "--port", str(port), "--account-id", "111122223333"]
    argv += ["--region", "us-west-2", "--directory", str(directory), "--binaries", str(directory)]
    argv += ["--node-modules", str(NODE_MODULES), *more]
    environment = child_environment(directory, region="us-west-2", account_id="111122223333", extra=KEYS.in_environment)
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Any, int]]:
    port = free_port()
    process = start(tmp_path, port)
    yield process, port
    process.kill()
    process.communicate()


def test_account_reports_ready_serves_its_routes_and_stops(served: tuple[Any, int], tmp_path: Path) -> None:
    process, port = served
    assert json.loads(process.stdout.readline()) == {"ready": True, "port": port}
    base = f"http://127.0.0.1:{port}/_rehearsal"

    def get(path: str) -> requests.Response:
        return requests.get(f"{base}/{path}", headers=KEYS.control_headers, timeout=PATIENCE_SECONDS)

    assert get("health").json()["account"] == "111122223333"
    assert get("journal?since=0").json() == []
    missing = get("nothing")
    assert (missing.status_code, missing.json()) == (404, {"error": "no route GET /_rehearsal/nothing"})
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 0
    assert (tmp_path / "logs" / "account.log").exists()


def test_what_it_writes_is_its_owners_and_gives_nobody_access(served: tuple[Any, int], tmp_path: Path) -> None:
    process, port = served
    process.stdout.readline()
    session: Any = boto3.Session(KEYS.access_key_id, KEYS.secret_access_key, region_name="us-west-2")
    address = {"endpoint_url": f"http://127.0.0.1:{port}"}
    iam = session.client("iam", **address)
    principal = {"Principal": {"AWS": "arn:aws:iam::111122223333:root"}}
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", **principal}
    trust = {"Version": "2012-10-17", "Statement": statement}
    role = iam.create_role(RoleName="reader", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    session_keys = session.client("sts", **address).assume_role(RoleArn=role, RoleSessionName="ann")["Credentials"]
    iam.create_user(UserName="ann")
    user_key = iam.create_access_key(UserName="ann")["AccessKey"]
    keys = (session_keys["AccessKeyId"], session_keys["SecretAccessKey"], session_keys["SessionToken"])
    assumed: Any = boto3.Session(*keys, region_name="us-west-2")
    s3 = assumed.client("s3", config=Config(signature_version="s3v4"), **address)
    url = s3.generate_presigned_url("get_object", {"Bucket": "a-bucket", "Key": "a-key"})
    requests.get(url, timeout=PATIENCE_SECONDS)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 0
    written = "".join((tmp_path / name).read_text() for name in WRITTEN)
    assert "GET /a-bucket/a-key" in written
    query = parse_qs(urlsplit(url).query)
    secrets = [*keys[1:], user_key["SecretAccessKey"], KEYS.secret_access_key, *KEYS.control_headers.values()]
    for secret in (*secrets, *query["X-Amz-Signature"]):
        assert secret not in written
        assert quote(secret, safe="") not in written
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in WRITTEN] == [0o600, 0o600]


def test_busy_port_ends_with_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(tmp_path, taken.getsockname()[1])
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("the embedded account could not start: port ")
    assert "Traceback" not in errors


def test_a_process_serves_one_account_and_a_second_leaves_it_alone(all_clients: Clients, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Allowed: one"), plugin.served(tmp_path):
        pass
    assert all_clients("sagemaker").list_clusters()["ClusterSummaries"] == []


@pytest.mark.parametrize("module", ["no.such.module", "json"])
def test_wrong_extension_ends_with_one_sentence(tmp_path: Path, module: str) -> None:
    process = start(tmp_path, free_port(), "--extension", module)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert errors.startswith(f"the embedded account could not start: extension {module} is invalid: ")
    assert "Allowed: a module with install(account)" in errors
    assert "Traceback" not in errors


def test_missing_cdk_ends_with_one_sentence(tmp_path: Path) -> None:
    process = start(tmp_path, free_port(), "--node-modules", str(tmp_path))
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert errors.startswith(
        f"the embedded account could not start: node_modules {tmp_path} is invalid: it has no aws-cdk/db.json.gz."
    )
    assert "Traceback" not in errors


def test_extensions_of_the_caller_are_installed_last(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []

    def module(name: str) -> SimpleNamespace:
        return SimpleNamespace(install=lambda _: installed.append(name))

    monkeypatch.setattr(server, "import_module", module)
    server.install_extensions(account, ["one", "another"])
    assert installed == [*server.EXTENSIONS, "one", "another"]


def test_real_ray_is_an_argument_of_the_account_and_reaches_its_control_planes(
    account: Account, tmp_path: Path
) -> None:
    rays, supervisor = [RealRay("ray:1", tmp_path), RealRay("ray:2", tmp_path)], create_autospec(ProcessSupervisor)
    served = EmbeddedAccount(tmp_path, tmp_path, account_id="1" * 12, region="us-west-2", node_modules=tmp_path)
    served.start(supervisor, real_rays=rays)
    [_, [_, _, module, verb, *arguments], _] = supervisor.start.call_args.args
    assert (module, verb) == ("embedded_account", "serve")
    assert server._parse(arguments).real_rays == rays
    account.real_rays = rays
    plane = make_control_plane(account, "one", "issuer", "1.35")
    assert isinstance(plane, ControlPlane)
    assert plane._ray_flags() == [f"--ray=ray:1={tmp_path}", f"--ray=ray:2={tmp_path}"]


@pytest.mark.parametrize("more", [("--clock-scale", "0"), ("--account-id", "12")])
def test_wrong_argument_is_named(tmp_path: Path, more: tuple[str, str]) -> None:
    process = start(tmp_path, free_port(), *more)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert more[0] in errors
