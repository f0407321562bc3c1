"""Open a shell on a node: HyperPod's instances accept Session Manager's interactive sessions only."""

import shutil
from collections.abc import Mapping
from typing import Any, Final

from config import Environment
from ops.nodes.listing import Node

_PROGRAMS: Final = ("aws", "session-manager-plugin")


def command(environment: Environment, cluster: Mapping[str, Any], node: Node) -> list[str]:
    """Return the command that opens a shell. `cluster` is DescribeCluster's answer; its ARN ends in the id."""
    cluster_id = cluster["ClusterArn"].rpartition("/")[2]
    target = f"sagemaker-cluster:{cluster_id}_{node.group}-{node.instance}"
    return ["aws", "ssm", "start-session", "--target", target, "--region", environment.region]


def missing_programs() -> list[str]:
    """Return the programs that a session needs and this machine lacks."""
    return [program for program in _PROGRAMS if shutil.which(program) is None]
