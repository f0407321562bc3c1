"""What the hyperpod stack gives a cluster that Slurm orchestrates: the two ways to configure Slurm."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from config import SlurmEnvironment
from config.model import InstanceGroup
from config.rules.slurm.rules import PROVISIONING_PARAMETERS, nodes_of
from k8s_charts.storage.volumes import FileSystemAddress
from stacks.hyperpod.lifecycle_scripts import GeneratedFile

CONTINUOUS: Final = {"NodeProvisioningMode": "Continuous"}
# CDK leaves empty objects out of a template; the handler takes this text for one (handlers/.../properties.py).
EMPTY_OBJECT: Final = "{}"


@dataclass(frozen=True)
class SlurmTopology:
    """What Slurm's configuration adds to the request: `by_api` in its fields, else in a file beside the scripts.

    The fields are those of AWS's page sagemaker-hyperpod-scaling-slurm. It says that the cluster is InService once a
    controller and, with a login group, a login node are up, and Failed if the controller's lifecycle script fails.
    """

    by_api: bool
    mounted: Mapping[str, Any]
    """Which file system HyperPod mounts where (`FsxLustreConfig`)."""

    @property
    def of_cluster(self) -> dict[str, Any]:
        """Fields of the cluster. Without the API's way, HyperPod refuses continuous provisioning."""
        return {"Orchestrator": {"Slurm": EMPTY_OBJECT}, **CONTINUOUS} if self.by_api else {}

    def of_group(self, group: InstanceGroup) -> dict[str, Any]:
        """Return the group's field `SlurmConfig`; nothing where the file names its nodes."""
        if group.slurm is None or not self.by_api:
            return {}
        partition = {"PartitionNames": [group.slurm.partition]} if group.slurm.partition else {}
        return {"SlurmConfig": {"NodeType": group.slurm.node.capitalize(), **partition}}

    def storage(self) -> list[dict[str, Any]]:
        """Return the storage that HyperPod mounts; the lifecycle scripts mount it where they configure Slurm."""
        return [{"FsxLustreConfig": dict(self.mounted)}] if self.by_api else []


def topology(environment: SlurmEnvironment, file_system: FileSystemAddress) -> SlurmTopology:
    """Return the topology of an environment with Slurm."""
    mounted = {
        "DnsName": file_system.dns_name,
        "MountName": file_system.mount_name,
        "MountPath": environment.fsx.mount_path,
    }
    return SlurmTopology(environment.slurm.configuration == "api", mounted)


def provisioning_parameters(environment: SlurmEnvironment, file_system: FileSystemAddress) -> GeneratedFile | None:
    """Return the file from which the lifecycle scripts configure Slurm; None where HyperPod does.

    Login nodes are no workers (awslabs/awsome-distributed-ai, modules/lifecycle_script, lists them as such).
    """
    if environment.slurm.configuration == "api":
        return None
    [(_, controller)] = nodes_of(environment, "controller")
    login = [group.name for _, group in nodes_of(environment, "login")]
    workers = [
        {"instance_group_name": group.name, "partition_name": group.slurm.partition}
        for _, group in nodes_of(environment, "compute")
        if group.slurm
    ]
    content = {
        "version": "1.0.0",
        "workload_manager": "slurm",
        "controller_group": controller.name,
        **({"login_group": login[0]} if login else {}),
        "worker_groups": workers,
    }
    of_file_system = {"fsx_dns_name": file_system.dns_name, "fsx_mountname": file_system.mount_name}
    existing = environment.fsx.existing
    stable = json.dumps([content, existing.model_dump() if existing else None])
    return GeneratedFile(PROVISIONING_PARAMETERS, content | of_file_system, stable)
