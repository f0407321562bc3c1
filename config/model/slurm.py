"""The models of Slurm, the other orchestrator of a HyperPod cluster."""

from typing import Annotated, Literal

from pydantic import Field

from config.model.base import Model, Shape

# SageMaker API reference, ClusterSlurmConfig: PartitionNames; Slurm keeps `default` and `all` for itself (slurm.conf).
PartitionName = Annotated[
    str,
    Shape(
        pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        what="the name of a Slurm partition: 1 to 63 letters, digits and inner hyphens",
        like="dev",
        fix="use hyphens instead of other characters",
    ),
]


class Slurm(Model):
    """Slurm orchestrates the HyperPod cluster, instead of EKS."""

    configuration: Literal["api", "provisioning_parameters"] = Field(
        default="api",
        description="Who configures Slurm. `api`: HyperPod, from `slurm` of each instance group. "
        "`provisioning_parameters`: the lifecycle scripts, from a file that a deployment generates. "
        "It cannot change later.",
    )
    managed_policy: bool = Field(
        default=False,
        description="Give the nodes' role AWS's AmazonSageMakerClusterInstanceRolePolicy instead of this project's "
        "narrower statements about logs, metrics, sessions and the lifecycle bucket.",
    )


class SlurmNode(Model):
    """What the nodes of an instance group are in Slurm."""

    node: Literal["controller", "login", "compute"] = Field(
        description="`controller` runs slurmctld, `login` is where people submit jobs, `compute` runs jobs. "
        "It cannot change later."
    )
    partition: PartitionName | None = Field(default=None, description="Partition of compute nodes.")
