"""Read an environment's HyperPod cluster from SageMaker."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError


def find(sagemaker: Any, name: str) -> Mapping[str, Any] | None:
    """Return DescribeCluster's answer, or None if the cluster does not exist."""
    try:
        return dict(sagemaker.describe_cluster(ClusterName=name))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFound":
            raise
        return None
