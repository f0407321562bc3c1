"""The environment as types. Every key of an environment's YAML file is a field here, and nothing else is.

All models are frozen and refuse unknown keys. They say what kind of value a key takes; what values mean together,
and every rule of HyperPod, EKS, FSx and KubeRay, stands in `config.rules`. Sizes are in GiB unless the name says
otherwise.
"""

from config.model.eks import Access, AddOn, Eks, ExistingEks, KubeflowPart, SystemNodes
from config.model.environment import Environment, Notifications
from config.model.fsx import DataRepository, ExistingFileSystem, Fsx
from config.model.hyperpod import HyperPod, InstanceGroup, Taint
from config.model.network import ExistingSubnet, ExistingVpc, Network
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

__all__ = [
    "Access",
    "AddOn",
    "Autoscaling",
    "AwsRay",
    "ClaimVolume",
    "DataRepository",
    "Eks",
    "Environment",
    "ExistingEks",
    "ExistingFileSystem",
    "ExistingSubnet",
    "ExistingVpc",
    "Fsx",
    "HyperPod",
    "Image",
    "InstanceGroup",
    "KubeRay",
    "KubeflowPart",
    "Network",
    "Notifications",
    "Ray",
    "RayCluster",
    "RayHead",
    "RayWorkers",
    "SecretVariable",
    "SystemNodes",
    "Taint",
]
