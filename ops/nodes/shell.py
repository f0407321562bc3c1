"""Open a shell on a node: HyperPod's instances accept Session Manager's interactive sessions only."""

import shutil
from collections.abc import Mapping
from typing import Any, Final

from config import Environment

_PROGRAMS: Final = ("aws", "session-manager-plugin")


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
