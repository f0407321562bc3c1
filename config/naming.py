"""Physical names, derived from the environment so that no two environments share one."""

from typing import Final

from config.model import Environment

ENVIRONMENT_TAG: Final = "ray-on-hyperpod:environment"
"""Key of the tag by which AWS resources that no stack owns are known as an environment's."""
STAND_IN_IMAGE: Final = "application/vnd.ray-on-hyperpod.rehearsal.stand-in+json"
"""Media type of the manifest that stands in ECR in an image's place: the rehearsal's, which makes no images."""


def stack(environment: Environment, part: str) -> str:
    """CloudFormation stack name: `<project>-<environment>-<part>`."""
    return f"{environment.project}-{environment.name}-{part}"


def eks_cluster(environment: Environment) -> str:
    """Name of the EKS cluster: its own, if it exists already."""
    existing = environment.eks.existing
    return existing.name if existing else f"{environment.project}-{environment.name}"


def lifecycle_bucket(environment: Environment) -> str:
    """Bucket of the lifecycle scripts.

    The prefix `sagemaker-` is what AmazonSageMakerClusterInstanceRolePolicy lets nodes read; bucket names are
    global, so account and region are part of it.
    """
    return f"sagemaker-{environment.project}-{environment.name}-{environment.account}-{environment.region}"


def data_bucket(environment: Environment) -> str:
    """Bucket of datasets and results, behind the file system's data repository associations."""
    return f"{environment.project}-{environment.name}-data-{environment.account}-{environment.region}"


def volume_namespace(environment: Environment) -> str:
    """Kubernetes namespace where root gives Ray's user a directory: Ray's own, when its claim is dynamic."""
    ray = environment.ray.namespace
    return ray if environment.fsx.dynamic else f"{ray}-volume"


def environment_tag(environment: Environment) -> str:
    """Value of the tag: unique within an account and region, as stack names are."""
    return f"{environment.project}-{environment.name}"
