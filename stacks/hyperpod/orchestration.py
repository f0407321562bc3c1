"""What the orchestrator of a cluster adds to the hyperpod stack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from constructs import IDependable

from config import SlurmEnvironment
from k8s_charts.storage.volumes import existing_file_system
from stacks.eks.stack import EksStack
from stacks.hyperpod.lifecycle_scripts import GeneratedFile
from stacks.hyperpod.slurm import CONTINUOUS, SlurmTopology, provisioning_parameters, topology
from stacks.storage.stack import StorageStack


@dataclass(frozen=True)
class Orchestration:
    """What the orchestrator adds.

    Attributes:
        of_cluster: Fields of the request for the cluster.
        eks_cluster: The EKS cluster that the nodes join.
        needed: What must exist before the cluster.
        slurm: What Slurm's configuration adds to the groups of the request.
        generated: A file beside the lifecycle scripts.
        data_bucket: The bucket that the nodes themselves read and write; Ray's pods have a role of their own.
        managed_policy: Whether the nodes' role has AWS's managed policy.
    """

    of_cluster: Mapping[str, Any]
    eks_cluster: eks.ICluster | None = None
    needed: Sequence[IDependable] = ()
    slurm: SlurmTopology | None = None
    generated: GeneratedFile | None = None
    data_bucket: s3.IBucket | None = None
    managed_policy: bool = False


def by_eks(stack: EksStack) -> Orchestration:
    """Return what EKS adds."""
    return Orchestration(
        {"Orchestrator": {"Eks": {"ClusterArn": stack.cluster.cluster_arn}}, **CONTINUOUS},
        eks_cluster=stack.cluster,
        needed=(stack.dependencies_chart,),
    )


def by_slurm(environment: SlurmEnvironment, storage: StorageStack) -> Orchestration:
    """Return what Slurm adds."""
    file_system = existing_file_system(environment.fsx, environment.region) or storage.file_system
    if file_system is None:
        raise ValueError(f"{environment.name}: Slurm's nodes need a file system that exists or that the stack owns")
    slurm = topology(environment, file_system)
    return Orchestration(
        slurm.of_cluster,
        slurm=slurm,
        generated=provisioning_parameters(environment, file_system),
        data_bucket=storage.data_bucket,
        managed_policy=environment.slurm.managed_policy,
    )
