"""Open a shell on a node: HyperPod's instances accept Session Manager's interactive sessions only."""

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from config import Environment

_PROGRAMS: Final = ("aws", "session-manager-plugin")
_OF_THE_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)


def target_of(cluster: Mapping[str, Any], group: str, instance: str) -> str:
    """Return Session Manager's name of a node. `cluster` is DescribeCluster's answer; its ARN ends in the id."""
    cluster_id = cluster["ClusterArn"].rpartition("/")[2]
    return f"sagemaker-cluster:{cluster_id}_{group}-{instance}"


def command(environment: Environment, target: str) -> list[str]:
    """Return the command that opens a shell on the target."""
    return ["aws", "ssm", "start-session", "--target", target, "--region", environment.region]


def missing_programs() -> list[str]:
    """Return the programs that a session needs and this machine lacks."""
    return [program for program in _PROGRAMS if shutil.which(program) is None]


def run(command: Sequence[str]) -> int:
    """Run a session in this terminal; return its exit code.

    The terminal sends Ctrl-C to this process, too, which outlives it: the session alone answers.
    """
    # The session's own handlers are the default ones: an ignored signal would be ignored there, too.
    before = {each: signal.signal(each, lambda *_: None) for each in _OF_THE_TERMINAL}
    try:
        code = subprocess.run(command, check=False).returncode
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return code if code >= 0 else 128 - code
