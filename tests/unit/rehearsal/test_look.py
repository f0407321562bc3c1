"""The file that a shell sources to inspect a rehearsal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.facts.charts_lock import STAND_IN_VARIABLE
from config.load import DIRECTORY_VARIABLE
from embedded_account.machine.isolation import child_environment
from rehearsal.run import access

OWN = {
    "HOME": "/home/ann",
    "PATH": os.environ["PATH"],
    "AWS_PROFILE": "production",
    "AWS_ENDPOINT_URL_S3": "https://203.0.113.16",
    "AWS_SESSION_TOKEN": "of-production",
    "KUBECONFIG": "/home/ann/.kube/config",
    "no_proxy": "example.com",
}


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_shell_that_sources_it_has_the_rehearsal_s_variables_and_no_others_of_aws(tmp_path: Path, shell: str) -> None:
    variables = child_environment(tmp_path, endpoint="http://localhost:1", region="us-west-2", account_id="1" * 12)
    variables |= {"AWS_SESSION_TOKEN": "it's the run's", "KUBECONFIG": str(tmp_path / "a folder" / "admin.kubeconfig")}
    variables |= {STAND_IN_VARIABLE: str(tmp_path / "charts"), DIRECTORY_VARIABLE: str(tmp_path / "environments")}
    file = access.write(tmp_path, variables, tmp_path / "programs")
    words = [shell, "-euc", f". {file}; env -0"]
    shown = subprocess.run(words, env=OWN, capture_output=True, text=True, check=True).stdout
    seen = dict(line.split("=", 1) for line in shown.split("\0") if line)
    wanted = {name: value for name, value in variables.items() if name.startswith("AWS_")}
    assert {name: value for name, value in seen.items() if name.startswith("AWS_")} == wanted
    assert wanted.keys() >= {"AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"}
    assert seen["KUBECONFIG"] == variables["KUBECONFIG"]
    named = (STAND_IN_VARIABLE, DIRECTORY_VARIABLE)
    assert [seen[name] for name in named] == [variables[name] for name in named]
    assert seen["no_proxy"] == seen["NO_PROXY"] == "*"
    assert seen["HOME"] == "/home/ann"
    assert seen["PATH"] == f"{sys.prefix}/bin:{tmp_path}/programs:{OWN['PATH']}"


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = access.write(tmp_path, {"NO_PROXY": "*", "AWS_SECRET_ACCESS_KEY": "of the run"}, tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
