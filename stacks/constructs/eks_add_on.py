"""EKS managed add-ons."""

import json
from collections.abc import Mapping

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct


def eks_add_on(
    scope: Construct, name: str, *, cluster: eks.Cluster, configuration: Mapping[str, str] | None = None
) -> eks.CfnAddon:
    """Return the add-on `name` in the build that EKS has as default for the cluster's Kubernetes version.

    It takes over what EKS installed by itself when it made the cluster (`OVERWRITE`).
    """
    return eks.CfnAddon(
        scope,
        f"AddOn-{name}",
        cluster_name=cluster.cluster_name,
        addon_name=name,
        resolve_conflicts="OVERWRITE",
        configuration_values=json.dumps(configuration) if configuration else None,
    )
