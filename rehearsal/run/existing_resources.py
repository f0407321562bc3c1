"""Describe the existing infrastructure of an environment in the embedded account's model."""

import json
from typing import Final

from config import Environment
from config.key_policy import key_policy
from config.model import ExistingEks, ExistingSubnet, ExistingVpc
from embedded_account.existing_description import (
    Cluster,
    DescribedAddOn,
    DescribedFileSystem,
    DescribedKey,
    DescribedSubnet,
    DescribedVpc,
    ExistingResources,
)

# The cluster's owner has enabled network policies, which the isolation of Ray requires.
_NETWORK_POLICIES: Final = '{"enableNetworkPolicy": "true"}'


def existing_resources(environment: Environment) -> ExistingResources:
    """Return the resources that the account must create before the environment is deployed."""
    network, eks, file_system = environment.network.existing, environment.existing_eks, environment.fsx.existing
    version = environment.kubernetes_version
    return ExistingResources(
        vpc=_vpc(network) if network else None,
        cluster=_cluster(eks, version, network) if eks and version and network else None,
        file_system=DescribedFileSystem(
            id=file_system.id, mount_name=file_system.mount_name, subnet=network.node_subnets[0].id
        )
        if file_system and network
        else None,
        key=_key(environment) if environment.company.kms_key else None,
    )


def _key(environment: Environment) -> DescribedKey:
    """Return the company's key, with the policy that docs/operate/company-rules.md asks for."""
    arn = environment.company.kms_key or ""
    return DescribedKey(id=arn.rpartition("/")[2], policy=json.dumps(key_policy(environment)))


def _vpc(network: ExistingVpc) -> DescribedVpc:
    subnets = (*network.node_subnets, *network.control_plane_subnets)
    return DescribedVpc(id=network.id, cidr=network.cidr, subnets=tuple(map(_subnet, subnets)))


def _subnet(subnet: ExistingSubnet) -> DescribedSubnet:
    return DescribedSubnet(id=subnet.id, zone_id=subnet.zone, cidr=subnet.cidr)


def _cluster(eks: ExistingEks, version: str, network: ExistingVpc) -> Cluster:
    return Cluster(
        name=eks.name,
        version=version,
        issuer_id=eks.oidc_provider_arn.rpartition("/")[2],
        security_group=eks.security_group,
        control_plane_subnets=tuple(subnet.id for subnet in network.control_plane_subnets),
        node_subnets=tuple(subnet.id for subnet in network.node_subnets),
        add_ons=(
            DescribedAddOn(name="vpc-cni", version=eks.vpc_cni, configuration=_NETWORK_POLICIES),
            DescribedAddOn(name="kube-proxy"),
            DescribedAddOn(name="coredns"),
            DescribedAddOn(name="eks-pod-identity-agent"),
        ),
    )
