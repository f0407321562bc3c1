"""Write resource_config.json, in which HyperPod names a cluster's nodes.

Sources: AWS docs, sagemaker-hyperpod-lifecycle-best-practices-slurm-slurm-base-config; awslabs/awsome-distributed-ai
95b939cd, hyperpod-mental-model.md, and 2b673935 of a group without instances.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ListedInstance:
    """An instance in resource_config.json."""

    name: str
    instance_id: str
    address: str


def cluster_file(name: str, arn: str, groups: Mapping[str, tuple[str, Sequence[ListedInstance]]]) -> dict[str, Any]:
    """Return the keys that the file has with each orchestrator; `groups` are types and instances by name."""
    return {
        "ClusterConfig": {"ClusterArn": arn, "ClusterName": name},
        "InstanceGroups": [
            {
                "Name": group,
                "InstanceType": instance_type,
                "Instances": [
                    {
                        "InstanceName": each.name,
                        # The agents have a network of their own; no VPC has the addresses of RFC 2544.
                        "AgentIpAddress": f"198.18.{each.address.split('.', 2)[2]}",
                        "CustomerIpAddress": each.address,
                        "InstanceId": each.instance_id,
                    }
                    for each in instances
                ]
                or None,
            }
            for group, (instance_type, instances) in groups.items()
        ],
    }


def slurm_config(controllers: Iterable[str]) -> dict[str, Any]:
    """Return the file's keys for Slurm; without addresses where HyperPod does not know the controllers."""
    found = list(controllers)
    addresses = {
        "PrimaryControllerIp": found[0] if found else None,
        "SecondaryControllerIps": found[1:] or None,
    }
    return {"ClusterType": "Slurm", "SlurmConfig": addresses}
