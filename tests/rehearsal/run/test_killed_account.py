"""The account is killed while the CDK CLI uses it: one message, no process, no hang, and room for the next account.

An account keeps nothing on disk but its journal and logs, by design: the next one in its folder is new and empty.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.machine.processes import living
from rehearsal.paths import NODE_MODULES
from tests.rehearsal.run import cluster_app
from tests.rehearsal.run.checkout import assert_one_clear_message, eventually_none_below
from tests.support.sampling import drawing
from tests.support.waiting import PATIENCE_SECONDS, wait_until

MOMENTS: Final = 20
REQUESTS: Final = {"deploy": range(1, 21), "destroy": range(1, 6)}
"""After how many requests of a phase the account is killed. Even the fastest machine needs more until its end."""
COMMAND: Final = (
    "touch deploy && cdk deploy --app cdk.out --require-approval never small"
    " && touch destroy && cdk destroy --app cdk.out --force small"
)
WITHOUT_CLUSTER: Final = frozenset({"Cluster", "Administrator", "ClusterRole"})


class User:
    """Somebody who deploys and destroys a small app in an account."""

    def __init__(self, directory: Path, programs: Binaries) -> None:
        self.directory = directory
        self.account = directory / ".embedded-account"
        cache = directory / "cache" / "embedded-account"
        cache.mkdir(parents=True)
        (cache / programs.directory.name).symlink_to(programs.directory)
        (directory / "node_modules").symlink_to(NODE_MODULES)
        assembly = directory / "cdk.out"
        assembly.mkdir()
        resources = {name: each for name, each in cluster_app.resources().items() if name not in WITHOUT_CLUSTER}
        (assembly / "small.template.json").write_text(json.dumps({"Resources": resources}))
        stack = {
            "type": "aws:cloudformation:stack",
            "environment": "aws://111122223333/us-west-2",
            "properties": {"templateFile": "small.template.json"},
        }
        (assembly / "manifest.json").write_text(json.dumps({"version": "36.0.0", "artifacts": {"small": stack}}))
        path = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ["PATH"]])
        self._environment = {"PATH": path, "HOME": str(directory), "XDG_CACHE_HOME": str(cache.parent)}

    @contextmanager
    def running(self) -> Iterator["subprocess.Popen[str]"]:
        """Start the command in a new account; in the end kill what is left."""
        for phase in REQUESTS:
            (self.directory / phase).unlink(missing_ok=True)
        argv = [sys.executable, "-m", "embedded_account", "run", "--", "sh", "-c", COMMAND]
        process = subprocess.Popen(
            argv,
            cwd=self.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def requests(self) -> int:
        """Return how many requests the account has answered."""
        log = self.account / "account" / "logs" / "account.log"
        return log.read_text().count(" HTTP/1.1") if log.exists() else 0


def kill_at(draw: random.Random, user: User, is_running: Callable[[], bool]) -> str:
    """Kill the account at a drawn moment, and return the moment."""
    phase = draw.choice(("start", "deploy", "deploy", "destroy"))
    pid_file, requests = user.account / "run" / "account.pid", 0
    began = pid_file if phase == "start" else user.directory / phase
    wait_until(lambda: began.exists() or not is_running(), phase)
    if phase != "start":
        requests = draw.choice(REQUESTS[phase])
        wanted = user.requests() + requests
        wait_until(lambda: user.requests() >= wanted or not is_running(), f"{requests} requests of {phase}")
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    return f"{phase}, after {requests} requests"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(MOMENTS))
def test_account_killed_at_any_moment_ends_the_command_and_leaves_room_for_the_next(
    number: int, tmp_path: Path, programs: Binaries
) -> None:
    user = User(tmp_path, programs)
    with user.running() as process:
        moment = kill_at(drawing(f"killed account {number}"), user, lambda: process.poll() is None)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1, f"{moment}: {output}"
    log = user.account / "logs" / "account.log"
    assert_one_clear_message(output, rf"(?m)^embedded account: account was ended by SIGKILL; its log: {log}$")
    assert output.count("SIGKILL") == 1
    assert eventually_none_below(user.account) == {}
    with user.running() as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, f"{moment}: {output}"
    assert "small: destroyed" in output
    assert living(user.account) == {}
