"""Check requests to create or change a cluster, as EKS does. Requests are in the API's shape."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from moto.ec2.models import ec2_backends

from embedded_account.context import Account
from embedded_account.services.eks.errors import invalid_parameter
from embedded_account.services.iam.access import trusts
from embedded_account.services.keys import CREATE_GRANT, unusable

VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
"""The Kubernetes versions that EKS has clusters of. HyperPod supports fewer."""
ENDED = ("1.30", "1.31")
"""Versions whose extended support has ended: EKS creates nothing with them (EKS user guide, "Kubernetes release
calendar"; read on 2026-11-26)."""
DEFAULT_VERSION = "1.35"
SERVICE_RANGE = "10.100.0.0/16"
"""The range of service addresses. EKS uses this range or 172.20.0.0/16; the rehearsal only this one."""
LOG_TYPES = frozenset({"api", "audit", "authenticator", "controllerManager", "scheduler"})
_CLUSTER_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
_RESERVED_BLOCKS = [
    ipaddress.IPv4Network(block)
    for block in (
        "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "224.0.0.0/3",
    )
]  # fmt: skip
"""The blocks that the public endpoint's list cannot have (EKS user guide, "Cluster API server endpoint")."""
_NOT_REHEARSED = ("computeConfig", "storageConfig", "remoteNetworkConfig", "outpostConfig")


def check_cluster(account: Account, request: Mapping[str, Any]) -> None:
    """Raise EKS's error for the first invalid part of a CreateCluster request."""
    name = request["name"]
    if not _CLUSTER_NAME.fullmatch(name):
        raise invalid_parameter(
            f"The cluster name {name!r} is invalid. Allowed: 1 to 100 letters, digits, hyphens and underscores"
        )
    for key in _NOT_REHEARSED:
        if any(value not in (False, None, {}, []) for value in _leaves(request.get(key))):
            raise invalid_parameter(
                f"{key}: the rehearsal has no Auto Mode, hybrid nodes or Outposts, only node groups and HyperPod"
            )
    check_version(request.get("version", DEFAULT_VERSION))
    if not trusts(account, request["roleArn"], "eks.amazonaws.com"):
        raise invalid_parameter(
            f"Role with arn: {request['roleArn']}, could not be assumed because it does not exist or the trusted "
            f"entity is not correct"
        )
    mode = request.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode != "API":
        raise invalid_parameter(
            f"authenticationMode {mode} is invalid: the rehearsal supports only access entries. Allowed: API"
        )
    network = request.get("kubernetesNetworkConfig", {})
    if network.get("ipFamily", "ipv4") != "ipv4" or network.get("serviceIpv4Cidr", SERVICE_RANGE) != SERVICE_RANGE:
        raise invalid_parameter(
            f"kubernetesNetworkConfig is invalid: the rehearsal supports only IPv4 services in {SERVICE_RANGE}"
        )
    check_network(account, request["resourcesVpcConfig"])
    check_logging(request.get("logging", {}))
    check_encryption(account, request.get("encryptionConfig", []))


def check_version(version: str) -> None:
    """Raise EKS's error unless EKS supports this Kubernetes version."""
    supported = [each for each in VERSIONS if each not in ENDED]
    if version not in supported:
        raise invalid_parameter(f"unsupported Kubernetes version {version}; EKS supports {', '.join(supported)}")


def check_upgrade(old: str, new: str, node_groups: Mapping[str, str]) -> None:
    """Raise EKS's error unless `new` is the next minor version after `old`, which all node groups have.

    Simulated: nothing goes back. EKS rolls back an upgrade of the last seven days if its readiness checks allow it.
    """
    check_version(new)
    step = VERSIONS.index(new) - VERSIONS.index(old)
    if step != 1:
        raise invalid_parameter(f"Unsupported Kubernetes minor version update from {old} to {new}")
    if behind := sorted(name for name, version in node_groups.items() if version != old):
        raise invalid_parameter(
            f"Nodegroups {', '.join(behind)} must be updated to match cluster version {old} before updating cluster "
            "version"
        )


def check_node_version(version: str, control_plane: str, before: str | None = None) -> None:
    """Raise EKS's error unless a node group can have this version.

    The version must not be newer than the control plane's (Kubernetes: version skew policy) and not older than the
    group's current version `before` (EKS API reference: UpdateNodegroupVersion).
    """
    check_version(version)
    if VERSIONS.index(version) > VERSIONS.index(control_plane):
        raise invalid_parameter(f"Nodegroup version {version} is newer than the control plane's, {control_plane}")
    if before and VERSIONS.index(version) < VERSIONS.index(before):
        raise invalid_parameter(f"Nodegroup version {before} cannot be rolled back to {version}")


def check_network(account: Account, config: Mapping[str, Any]) -> None:
    """Raise EKS's error unless the subnets and security groups are in one VPC and the endpoint can be reached."""
    subnets = find_subnets(account, config.get("subnetIds", []))
    if len({subnet.availability_zone for subnet in subnets}) < 2:
        raise invalid_parameter("Subnets specified must be in at least two different AZs")
    vpcs = {subnet.vpc_id for subnet in subnets}
    if len(vpcs) != 1:
        raise invalid_parameter("Subnets provided belong to different VPCs")
    for group_id in config.get("securityGroupIds", []):
        group = ec2_backends[account.account_id][account.region].get_security_group_from_id(group_id)
        if group is None or group.vpc_id not in vpcs:
            raise invalid_parameter(f"Security group(s) [{group_id}] are not in the same VPC as the subnets.")
    if not (config.get("endpointPublicAccess", True) or config.get("endpointPrivateAccess", False)):
        raise invalid_parameter("Private and public endpoint access cannot be false")
    for cidr in config.get("publicAccessCidrs", []):
        try:
            block = ipaddress.IPv4Network(cidr)
        except ValueError as error:
            raise invalid_parameter(f"The following CIDRs are invalid: {cidr}") from error
        if any(block.subnet_of(reserved) for reserved in _RESERVED_BLOCKS):
            raise invalid_parameter(f"The following CIDRs are not allowed in publicAccessCidrs: [{cidr}]")


def find_subnets(account: Account, subnet_ids: Sequence[str]) -> list[Any]:
    """Return moto's Subnets in the given order; raise EKS's error if an id does not exist."""
    zones = ec2_backends[account.account_id][account.region].subnets.values()
    known = {subnet_id: subnet for zone in zones for subnet_id, subnet in zone.items()}
    if unknown := [subnet_id for subnet_id in subnet_ids if subnet_id not in known]:
        raise invalid_parameter(f"The subnet ID '{unknown[0]}' does not exist")
    return [known[subnet_id] for subnet_id in subnet_ids]


def check_logging(logging: Mapping[str, Any]) -> None:
    """Raise EKS's error for an unknown type of control-plane log."""
    for setup in logging.get("clusterLogging", []):
        if unknown := set(setup.get("types", [])) - LOG_TYPES:
            raise invalid_parameter(f"log types {sorted(unknown)} are invalid. Allowed: {sorted(LOG_TYPES)}")


def check_encryption(account: Account, config: Sequence[Mapping[str, Any]]) -> None:
    """Raise EKS's error unless only secrets are encrypted, with a key that can be used."""
    for entry in config:
        if entry.get("resources") != ["secrets"]:
            raise invalid_parameter("encryptionConfig.resources is invalid. Allowed: [secrets]")
        key = entry["provider"]["keyArn"]
        if why := unusable(account.account_id, account.region, key, CREATE_GRANT, "kms:DescribeKey", via="eks"):
            raise invalid_parameter(f"The keyArn {key} {why}")


def _leaves(value: Any) -> list[Any]:
    """Return all scalar values of a nested part of a request: they show whether a feature is switched on."""
    if isinstance(value, Mapping):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    return [value]
