"""EKS managed add-ons."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from config.facts.versions import VPC_CNI
from config.model import AddOn

# Add-ons that a node needs to become Ready, with the configuration that the project relies on.
_BEFORE_NODES: Final[Mapping[str, Mapping[str, str]]] = {
    "vpc-cni": {"enableNetworkPolicy": "true"},
    "kube-proxy": {},
    "eks-pod-identity-agent": {},
}
# Add-ons that become healthy only once nodes exist.
_AFTER_NODES: Final = ("coredns",)
# Other add-ons get the build that EKS uses by default for the cluster's Kubernetes version.
_PINNED: Final = {"vpc-cni": VPC_CNI}


def eks_add_ons(scope: Construct, *, cluster: eks.ICluster, add_ons: Sequence[AddOn], nodes: eks.CfnNodegroup) -> None:
    """Create the four add-ons of every cluster and those of `add_ons`, which may also pin versions of the four."""
    versions = {**_PINNED, **{each.name: each.version or _PINNED.get(each.name) for each in add_ons}}
    for name, configuration in _BEFORE_NODES.items():
        made = _eks_add_on(scope, name, cluster, versions.get(name), configuration)
        nodes.node.add_dependency(made)
    for name in (*_AFTER_NODES, *(name for name in versions if name not in (*_BEFORE_NODES, *_AFTER_NODES))):
        _eks_add_on(scope, name, cluster, versions.get(name)).node.add_dependency(nodes)


def _eks_add_on(
    scope: Construct,
    name: str,
    cluster: eks.ICluster,
    version: str | None,
    configuration: Mapping[str, str] | None = None,
) -> eks.CfnAddon:
    """Return an add-on that overwrites what EKS installed when it created the cluster (`OVERWRITE`)."""
    return eks.CfnAddon(
        scope,
        f"AddOn-{name}",
        cluster_name=cluster.cluster_name,
        addon_name=name,
        addon_version=version,
        resolve_conflicts="OVERWRITE",
        configuration_values=json.dumps(configuration) if configuration else None,
    )
