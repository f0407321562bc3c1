"""Test the AWS CLI of a layer: loaded once, while each call uses its caller's environment and identity."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_account.lambdas.aws_cli import AwsClis, replace_program
from embedded_account.machine.processes import is_alive
from embedded_account.testing.waiting import wait_until

PROGRAM = "import sys\nimport awscli.clidriver\nif __name__ == '__main__':\n    sys.exit(awscli.clidriver.main())\n"
DRIVER = """
import atexit, json, os, sys, threading, time
import botocore.session
loaded_in = os.getpid()
DEFAULT_PATH = os.path.expanduser("~/.kube/config")
calls = 0

class Driver:
    session = botocore.session.Session()

def create_clidriver():
    return Driver()

def main():
    global calls
    calls += 1
    if sys.argv[1] == "exit":
        return int(sys.argv[2])
    if sys.argv[1] == "die":
        os.kill(os.getpid(), int(sys.argv[2]))
    if sys.argv[1] == "raise":
        raise ValueError("on purpose")
    if sys.argv[1] == "later":
        atexit.register(print, "at exit")
        threading.Timer(0.1, print, ["in a thread"]).start()
        return 5
    if sys.argv[1] == "hang":
        print(os.getpid(), flush=True)
        time.sleep(600)
    read = botocore.session.Session().create_client(sys.argv[1])
    found = {"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(), "calls": calls}
    found["default_path"] = DEFAULT_PATH
    print(json.dumps(found | {"loaded_in": loaded_in, "pid": os.getpid(), "read": read, "input": sys.stdin.read()}))
    print("on stderr", file=sys.stderr)
"""
SESSION = """
import os

class Loader:
    def __init__(self, data_path):
        self.data_path = data_path
        self.services = {}

    def load(self, service):
        return self.services.setdefault(service, {"by": os.getpid(), "data_path": self.data_path})

def create_loader(data_path):
    return Loader(data_path)

class Session:
    def create_client(self, service, *region, **credentials):
        return create_loader(os.environ.get("AWS_DATA_PATH")).load(service)
"""


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """Return the folder of a function's merged layers with a fake AWS CLI; its path has 200 characters."""
    opt = tmp_path / ("long-" * 40) / "opt"
    (opt / "awscli/awscli").mkdir(parents=True)
    (opt / "awscli/awscli/__init__.py").touch()
    (opt / "awscli/awscli/clidriver.py").write_text(DRIVER)
    (opt / "awscli/botocore").mkdir()
    (opt / "awscli/botocore/__init__.py").touch()
    (opt / "awscli/botocore/session.py").write_text(SESSION)
    (opt / "awscli/aws").write_text(PROGRAM)
    replace_program(opt)
    return opt


@pytest.fixture
def clis(layer: Path, tmp_path: Path) -> Iterator[AwsClis]:
    clis = AwsClis(tmp_path / "aws-cli.log")
    clis.ensure(layer)
    yield clis
    clis.close()


def aws(layer: Path, *words: str, folder: Path | None = None, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [layer / "awscli/aws", *words],
        input="given",
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_calls_share_what_is_loaded_and_nothing_else(layer: Path, clis: AwsClis, tmp_path: Path) -> None:
    one = aws(layer, "eks", "with space", "", folder=tmp_path, AWS_ACCESS_KEY_ID="one", ONLY="1")
    two = aws(layer, "s3", folder=layer, AWS_ACCESS_KEY_ID="two")

    assert (one.returncode, two.returncode) == (0, 0), one.stderr
    ones, twos = json.loads(one.stdout), json.loads(two.stdout)
    assert (ones["arguments"], twos["arguments"]) == (["eks", "with space", ""], ["s3"])
    assert (ones["environment"]["AWS_ACCESS_KEY_ID"], ones["environment"]["ONLY"]) == ("one", "1")
    assert set(twos["environment"]) - {"LC_CTYPE"} == {"PATH", "AWS_ACCESS_KEY_ID"}
    assert (ones["folder"], twos["folder"]) == (str(tmp_path), str(layer))
    assert (ones["input"], one.stderr) == ("given", "on stderr\n")
    assert (ones["calls"], twos["calls"]) == (1, 1)
    assert ones["loaded_in"] == twos["loaded_in"] != ones["pid"] != twos["pid"]


def test_path_that_a_module_found_below_the_home_at_load_time_is_the_calls(layer: Path, clis: AwsClis) -> None:
    called = aws(layer, "eks", HOME="/home/one")
    assert json.loads(called.stdout)["default_path"] == "/home/one/.kube/config", called.stderr


def test_descriptions_of_services_are_read_once(layer: Path, clis: AwsClis) -> None:
    first, second = (json.loads(aws(layer, "eks").stdout) for _ in range(2))
    assert first["pid"] != second["pid"]
    assert first["read"]["by"] == second["read"]["by"] == first["loaded_in"]


def test_call_with_a_data_path_of_its_own_reads_from_there(layer: Path, clis: AwsClis) -> None:
    found = json.loads(aws(layer, "eks", AWS_DATA_PATH="/own").stdout)
    assert found["read"] == {"by": found["pid"], "data_path": "/own"}


def test_exit_codes_and_errors_are_the_calls(layer: Path, clis: AwsClis) -> None:
    assert aws(layer, "exit", "0").returncode == 0
    assert aws(layer, "exit", "42").returncode == 42
    assert aws(layer, "die", str(int(signal.SIGTERM))).returncode == -signal.SIGTERM
    later = aws(layer, "later")
    assert (later.returncode, later.stdout) == (5, "in a thread\nat exit\n")
    failed = aws(layer, "raise")
    assert failed.returncode == 1
    assert "ValueError: on purpose" in failed.stderr


def test_call_ends_with_its_caller(layer: Path, clis: AwsClis) -> None:
    caller = subprocess.Popen([layer / "awscli/aws", "hang"], stdout=subprocess.PIPE, text=True)
    assert caller.stdout
    pid = int(caller.stdout.readline())

    caller.kill()
    caller.communicate()

    wait_until(lambda: not is_alive(pid), "the end of the call")
    assert aws(layer, "exit", "3").returncode == 3


def test_calls_end_with_the_account(layer: Path, clis: AwsClis) -> None:
    caller = subprocess.Popen([layer / "awscli/aws", "hang"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert caller.stdout
    pid = int(caller.stdout.readline())

    clis.close()

    assert not is_alive(pid)
    _, errors = caller.communicate()
    assert caller.returncode == 255
    assert errors == "aws: the process that runs the AWS CLI has ended\n"


def test_layers_own_program_runs_where_nothing_has_it_loaded(layer: Path) -> None:
    found = json.loads(aws(layer, "eks").stdout)

    assert found["loaded_in"] == found["pid"]


def test_layer_without_an_aws_cli_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "awscli").mkdir()
    (tmp_path / "awscli/aws").write_text("something else")

    replace_program(tmp_path)
    AwsClis(tmp_path / "log").ensure(tmp_path)

    assert [path.name for path in tmp_path.rglob("*")] == ["awscli", "aws"]
    assert (tmp_path / "awscli/aws").read_text() == "something else"


@pytest.mark.parametrize("served", [True, False])
def test_a_link_to_the_program_is_the_program(layer: Path, tmp_path: Path, served: bool) -> None:
    clis = AwsClis(tmp_path / "aws-cli.log")
    if served:
        clis.ensure(layer)
    link = tmp_path / "tools" / "aws"
    link.parent.mkdir()
    link.symlink_to(layer / "awscli/aws")
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run([link, "exit", "7"], env=env, capture_output=True, text=True, check=False)
    clis.close()
    assert (done.returncode, done.stderr) == (7, "")
