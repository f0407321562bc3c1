"""What EKS checks before it makes or changes a cluster. Requests are in the API's own shape."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from moto.ec2.models import ec2_backends
from moto.kms.models import kms_backends

from embedded_account.context import Account
from embedded_account.services.eks.errors import invalid_parameter
from embedded_account.services.iam.access import trusts

VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
"""Kubernetes versions in EKS's standard or extended support (HyperPod's own list is shorter)."""
DEFAULT_VERSION = "1.35"
SERVICE_RANGE = "10.100.0.0/16"
"""EKS takes this or 172.20.0.0/16; the rehearsal's control plane has only this one."""
LOG_TYPES = frozenset({"api", "audit", "authenticator", "controllerManager", "scheduler"})
_CLUSTER_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
_NOT_REHEARSED = ("computeConfig", "storageConfig", "remoteNetworkConfig", "outpostConfig")


def check_cluster(account: Account, request: Mapping[str, Any]) -> None:
    """Raise EKS's error for the first thing in a CreateCluster request that it would refuse."""
    name = request["name"]
    if not _CLUSTER_NAME.fullmatch(name):
        raise invalid_parameter(
            f"The name {name!r} is not a cluster name: 1 to 100 letters, digits, hyphens and underscores"
        )
    for key in _NOT_REHEARSED:
        if any(value not in (False, None, {}, []) for value in _leaves(request.get(key))):
            raise invalid_parameter(f"{key}: the rehearsal has no Auto Mode, only node groups and HyperPod")
    check_version(request.get("version", DEFAULT_VERSION))
    if not trusts(account, request["roleArn"], "eks.amazonaws.com"):
        raise invalid_parameter(
            f"Role with arn: {request['roleArn']}, could not be assumed because it does not exist or the trusted "
            f"entity is not correct"
        )
    mode = request.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode != "API":
        raise invalid_parameter(f"authenticationMode {mode}: the rehearsal has access entries (API) only")
    network = request.get("kubernetesNetworkConfig", {})
    if network.get("ipFamily", "ipv4") != "ipv4" or network.get("serviceIpv4Cidr", SERVICE_RANGE) != SERVICE_RANGE:
        raise invalid_parameter(f"kubernetesNetworkConfig: the rehearsal has IPv4 services in {SERVICE_RANGE}")
    check_network(account, request["resourcesVpcConfig"])
    check_logging(request.get("logging", {}))
    check_encryption(account, request.get("encryptionConfig", []))


def check_version(version: str) -> None:
    """Raise unless EKS has this Kubernetes version."""
    if version not in VERSIONS:
        raise invalid_parameter(f"unsupported Kubernetes version {version}; EKS has {', '.join(VERSIONS)}")


def check_upgrade(old: str, new: str) -> None:
    """Raise unless `new` is the next minor version."""
    check_version(new)
    step = VERSIONS.index(new) - VERSIONS.index(old)
    if step != 1:
        raise invalid_parameter(f"Unsupported Kubernetes minor version update from {old} to {new}")


def check_node_version(version: str, control_plane: str, before: str | None = None) -> None:
    """Raise unless a node group can have or get this version: no newer than the control plane (Kubernetes: version
    skew policy), and never back to an earlier one (EKS API reference: UpdateNodegroupVersion).
    """
    check_version(version)
    if VERSIONS.index(version) > VERSIONS.index(control_plane):
        raise invalid_parameter(f"Nodegroup version {version} is newer than the control plane's, {control_plane}")
    if before and VERSIONS.index(version) < VERSIONS.index(before):
        raise invalid_parameter(f"Nodegroup version {before} cannot be rolled back to {version}")


def check_network(account: Account, config: Mapping[str, Any]) -> None:
    """Raise unless subnets and security groups fit together and the endpoint can be reached."""
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
            ipaddress.IPv4Network(cidr)
        except ValueError as error:
            raise invalid_parameter(f"The following CIDRs are invalid: {cidr}") from error


def find_subnets(account: Account, subnet_ids: Sequence[str]) -> list[Any]:
    """moto's Subnets in the order given; EKS's error for an id that does not exist."""
    zones = ec2_backends[account.account_id][account.region].subnets.values()
    known = {subnet_id: subnet for zone in zones for subnet_id, subnet in zone.items()}
    if unknown := [subnet_id for subnet_id in subnet_ids if subnet_id not in known]:
        raise invalid_parameter(f"The subnet ID '{unknown[0]}' does not exist")
    return [known[subnet_id] for subnet_id in subnet_ids]


def check_logging(logging: Mapping[str, Any]) -> None:
    """Raise for a kind of control-plane log that does not exist."""
    for setup in logging.get("clusterLogging", []):
        if unknown := set(setup.get("types", [])) - LOG_TYPES:
            raise invalid_parameter(f"log types {sorted(unknown)}: {sorted(LOG_TYPES)} are allowed")


def check_encryption(account: Account, config: Sequence[Mapping[str, Any]]) -> None:
    """Raise unless secrets, and nothing else, are encrypted with a key that exists."""
    for entry in config:
        if entry.get("resources") != ["secrets"]:
            raise invalid_parameter("encryptionConfig.resources: exactly [secrets] is allowed")
        key = entry["provider"]["keyArn"]
        known = {known.arn for known in kms_backends[account.account_id][account.region].keys.values()}
        if key not in known:
            raise invalid_parameter(f"The keyArn {key} does not exist")


def _leaves(value: Any) -> list[Any]:
    """The plain values in a nested request, to tell one that is switched off from one that asks for something."""
    if isinstance(value, Mapping):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    return [value]
