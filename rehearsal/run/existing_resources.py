"""Describe the existing infrastructure of an environment in the embedded account's model."""

from typing import Final

from config import Environment
from config.model import ExistingEks, ExistingSubnet, ExistingVpc
from embedded_account.existing_description import AddOn, Cluster, ExistingResources, FileSystem, Subnet, Vpc

# The cluster's owner has enabled network policies, which the isolation of Ray requires.
_NETWORK_POLICIES: Final = '{"enableNetworkPolicy": "true"}'


def existing_resources(environment: Environment) -> ExistingResources:
    """Return the resources that the account must create before the environment is deployed."""
    network, eks, file_system = environment.network.existing, environment.eks.existing, environment.fsx.existing
    return ExistingResources(
        vpc=_vpc(network) if network else None,
        cluster=_cluster(eks, environment.eks.version, network) if eks and network else None,
        file_system=FileSystem(id=file_system.id, mount_name=file_system.mount_name, subnet=network.node_subnets[0].id)
        if file_system and network
        else None,
    )


def _vpc(network: ExistingVpc) -> Vpc:
    subnets = (*network.node_subnets, *network.control_plane_subnets)
    return Vpc(id=network.id, cidr=network.cidr, subnets=tuple(map(_subnet, subnets)))


def _subnet(subnet: ExistingSubnet) -> Subnet:
    return Subnet(id=subnet.id, zone_id=subnet.zone, cidr=subnet.cidr)


def _cluster(eks: ExistingEks, version: str, network: ExistingVpc) -> Cluster:
    return Cluster(
        name=eks.name,
        version=version,
        issuer_id=eks.oidc_provider_arn.rpartition("/")[2],
        security_group=eks.security_group,
        control_plane_subnets=tuple(subnet.id for subnet in network.control_plane_subnets),
        node_subnets=tuple(subnet.id for subnet in network.node_subnets),
        add_ons=(
            AddOn(name="vpc-cni", version=eks.vpc_cni, configuration=_NETWORK_POLICIES),
            AddOn(name="kube-proxy"),
            AddOn(name="coredns"),
            AddOn(name="eks-pod-identity-agent"),
        ),
    )
