"""The models of an environment: each key of an environment file is a field of one of them.

All models are frozen and refuse unknown keys. They define the kind of each value. `config.rules` checks values against
each other, and against the rules of HyperPod, EKS, FSx and KubeRay. Sizes are in GiB unless the name says otherwise.
"""

from config.model.company import Company
from config.model.eks import Access, AddOn, AddOnRole, Eks, ExistingEks, KubeflowPart, SystemNodes
from config.model.environment import (
    PARTS_OF_EKS,
    EksEnvironment,
    Environment,
    Notifications,
    SlurmEnvironment,
)
from config.model.fsx import Checkpoints, DataRepository, ExistingFileSystem, Fsx
from config.model.hyperpod import HyperPod, InstanceGroup, Taint
from config.model.memory_tier import TieredStorage
from config.model.mlflow import MANAGED, Mlflow, port_of
from config.model.network import ExistingSubnet, ExistingVpc, Network
from config.model.observability import (
    Alerts,
    ContainerInsights,
    Grafana,
    HyperPodObservability,
    InCluster,
    Observability,
)
from config.model.ray import (
    Autoscaling,
    AwsRay,
    ClaimVolume,
    Image,
    KubeRay,
    Ray,
    RayCluster,
    RayHead,
    RayWorkers,
    SecretVariable,
)
from config.model.slurm import Slurm, SlurmNode

__all__ = [
    "MANAGED",
    "PARTS_OF_EKS",
    "Access",
    "AddOn",
    "AddOnRole",
    "Alerts",
    "Autoscaling",
    "AwsRay",
    "Checkpoints",
    "ClaimVolume",
    "Company",
    "ContainerInsights",
    "DataRepository",
    "Eks",
    "EksEnvironment",
    "Environment",
    "ExistingEks",
    "ExistingFileSystem",
    "ExistingSubnet",
    "ExistingVpc",
    "Fsx",
    "Grafana",
    "HyperPod",
    "HyperPodObservability",
    "Image",
    "InCluster",
    "InstanceGroup",
    "KubeRay",
    "KubeflowPart",
    "Mlflow",
    "Network",
    "Notifications",
    "Observability",
    "Ray",
    "RayCluster",
    "RayHead",
    "RayWorkers",
    "SecretVariable",
    "Slurm",
    "SlurmEnvironment",
    "SlurmNode",
    "SystemNodes",
    "Taint",
    "TieredStorage",
    "port_of",
]
