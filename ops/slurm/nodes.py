"""List the nodes of a Slurm cluster by instance id, by the name that Slurm knows, and by address."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from config import SlurmEnvironment
from ops.errors import RefusedError
from ops.readiness.nodes import list_nodes

_SHOWN: Final = 10
_NAME: Final = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)")


@dataclass(frozen=True)
class SlurmInstance:
    """One instance of the cluster.

    Attributes:
        name: The first part of its private DNS name, by default its name in Slurm; "" while it has none.
        address: Its private address, which its name contains.
        role: controller, login or compute; "" for a group that the environment no longer lists.
        message: What HyperPod says of it, such as a failure of its lifecycle scripts.
    """

    instance: str
    name: str
    address: str
    group: str
    role: str
    partition: str
    type: str
    status: str
    software: str
    message: str

    def as_data(self) -> dict[str, str]:
        """Return the node for JSON and YAML."""
        return asdict(self)


def slurm_nodes(environment: SlurmEnvironment, sagemaker: Any) -> list[SlurmInstance]:
    """Return every node of the cluster, by group and name."""
    listed = list_nodes(sagemaker, environment.hyperpod.cluster_name)
    found = [_node(environment, each) for each in listed]
    return sorted(found, key=lambda node: (node.group, node.name, node.instance))


def find(environment: SlurmEnvironment, sagemaker: Any, wanted: str) -> SlurmInstance:
    """Return the node by instance id, name in Slurm or address. Raises RefusedError if the cluster has none."""
    listed = slurm_nodes(environment, sagemaker)
    found = next((node for node in listed if wanted and wanted in {node.instance, node.name, node.address}), None)
    if found is None:
        names = [node.name or node.instance for node in listed]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        allowed = ", ".join(names[:_SHOWN]) + more or "no node yet"
        raise RefusedError(
            f"cluster {environment.hyperpod.cluster_name} has no node {wanted}. Allowed: {allowed}. "
            "Fix: for another name in Slurm, give the node's address, `NodeAddr` of `scontrol show node`"
        )
    return found


def controller(environment: SlurmEnvironment, sagemaker: Any) -> SlurmInstance:
    """Return the controller node. Raises RefusedError unless it runs."""
    found = next((node for node in slurm_nodes(environment, sagemaker) if node.role == "controller"), None)
    if found is None or found.status != "Running":
        state = f"is {found.status}" if found else "does not exist yet"
        raise RefusedError(f"the controller node {state}. Allowed: Running. Fix: `ops wait --env {environment.name}`")
    return found


def _node(environment: SlurmEnvironment, listed: Mapping[str, Any]) -> SlurmInstance:
    group = next(
        (each for each in environment.hyperpod.instance_groups if each.name == listed["InstanceGroupName"]), None
    )
    kind = group.slurm if group else None
    name = str(listed.get("PrivateDnsHostname", "")).partition(".")[0]
    octets = _NAME.fullmatch(name)
    return SlurmInstance(
        instance=listed["InstanceId"],
        name=name,
        address=".".join(octets.groups()) if octets else "",
        group=listed["InstanceGroupName"],
        role=kind.node if kind else "",
        partition=(kind.partition or "") if kind else "",
        type=listed["InstanceType"],
        status=listed["InstanceStatus"]["Status"],
        software=listed.get("ImageVersionStatus", ""),
        message=listed["InstanceStatus"].get("Message", ""),
    )
