"""Test `python -m embedded_account run -- COMMAND`."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import living

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
