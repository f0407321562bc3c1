"""Checks of quotas: what the environment asks for, and what already runs in the account."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from config import EksEnvironment, Environment, naming
from ops.preflight.check import CheckFinding
from ops.preflight.here import Here
from ops.preflight.quotas import Demand, compared

_LETTERS: Final = re.compile(r"[a-z]+")
# Families of EC2's standard instances begin with one of these letters; these families have quotas of their own.
_STANDARD: Final = frozenset("acdhimrtz")
_NOT_STANDARD: Final = frozenset({"dl", "hpc", "inf", "mac", "trn", "u"})


def hyperpod(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Compare SageMaker's quotas of HyperPod with the instance groups and with all other clusters.

    AWS: sagemaker ListClusters, DescribeCluster; service-quotas. Source: SageMaker AI developer guide, "Prerequisites
    for using SageMaker HyperPod", quotas: per instance type, per cluster, across clusters, EBS volume per instance.
    """
    asked: Counter[str] = Counter()
    for group in here.environment.hyperpod.instance_groups:
        asked[group.instance_type] += group.count
    used: Counter[str] = Counter()
    for cluster in here.pages("sagemaker", "list_clusters", "ClusterSummaries"):
        if cluster["ClusterName"] != here.environment.hyperpod.cluster_name:
            used += _instances(here, cluster["ClusterName"])
    demands = [
        Demand("sagemaker", f"{name} for cluster usage", count, used[name]) for name, count in asked.items() if count
    ]
    total = asked.total()
    largest = max(group.volume_gib for group in here.environment.hyperpod.instance_groups)
    demands += [
        Demand("sagemaker", "Maximum number instances allowed per SageMaker HyperPod cluster", total, 0),
        Demand(
            "sagemaker",
            "Total number of instances allowed across SageMaker HyperPod clusters",
            total,
            used.total(),
        ),
        Demand("sagemaker", "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance", largest, 0),
    ]
    yield from compared(here, demands)


def _instances(here: Here[Environment], cluster: str) -> Counter[str]:
    """Return the instances that a cluster has or is about to have, by type."""
    counted: Counter[str] = Counter()
    found = here.client("sagemaker").describe_cluster(ClusterName=cluster)
    for group in (*found.get("InstanceGroups", []), *found.get("RestrictedInstanceGroups", [])):
        # A group with InstanceRequirements has several types; it counts in the totals only.
        kind = group.get("InstanceType", "several types")
        counted[kind] += max(group.get("TargetCount", 0), group.get("CurrentCount", 0))
    return counted


def network(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Compare the quotas of a new VPC: VPCs, gateways, addresses, network interfaces.

    AWS: ec2 Describe calls; service-quotas. Source: VPC user guide, "Amazon VPC quotas"; SageMaker AI developer guide,
    "Prerequisites for using SageMaker HyperPod" (network interfaces per region).
    """
    own, network = here.deployed, here.environment.network
    demands = []
    if network.existing is None:
        vpcs = here.pages("ec2", "describe_vpcs", "Vpcs")
        used = sum(not own.has(vpc["VpcId"]) for vpc in vpcs)
        demands.append(Demand("vpc", "VPCs per Region", 1, used, "L-F678F1CE"))
    if network.existing is None and not network.closed:
        gateways = here.pages("ec2", "describe_internet_gateways", "InternetGateways")
        used = sum(not own.has(gateway["InternetGatewayId"]) for gateway in gateways)
        demands.append(Demand("vpc", "Internet gateways per Region", 1, used, "L-A4707A72"))
        addresses = here.client("ec2").describe_addresses()["Addresses"]
        used = sum(not own.has(each.get("AllocationId"), each["PublicIp"]) for each in addresses)
        zones = network.zones if network.nat_gateways == "one-per-zone" else network.zones[:1]
        demands.append(Demand("ec2", "EC2-VPC Elastic IPs", len(zones), used, "L-0263D0A3"))
        busiest = max(_nat_gateways(here, zone) for zone in zones)
        demands.append(Demand("vpc", "NAT gateways per Availability Zone", 1, busiest, "L-FE5A380F"))
    demands.append(_interfaces(here))
    yield from compared(here, demands)


def _nat_gateways(here: Here[Environment], zone: str) -> int:
    subnets = here.pages(
        "ec2", "describe_subnets", "Subnets", Filters=[{"Name": "availability-zone-id", "Values": [zone]}]
    )
    in_zone = {subnet["SubnetId"] for subnet in subnets}
    living = [{"Name": "state", "Values": ["pending", "available"]}]
    gateways = here.pages("ec2", "describe_nat_gateways", "NatGateways", Filters=living)
    return sum(each["SubnetId"] in in_zone and not here.deployed.has(each["NatGatewayId"]) for each in gateways)


def _interfaces(here: Here[Environment]) -> Demand:
    """Return the demand for network interfaces: one for each network card of a node, as many as it has EFA."""
    asked = sum(group.count * max(1, group.type.efa) for group in here.environment.hyperpod.instance_groups)
    interfaces = here.pages("ec2", "describe_network_interfaces", "NetworkInterfaces")
    own = here.deployed
    used = sum(not any(own.has(group["GroupId"]) for group in each["Groups"]) for each in interfaces)
    return Demand("vpc", "Network interfaces per Region", asked, used, "L-DF5E4CA3", estimated=True)


def file_system(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Compare FSx's quotas with the capacity of a new file system and of all others.

    AWS: fsx DescribeFileSystems; service-quotas. Source: FSx for Lustre user guide, "Quotas". FSx has no call that
    lists the deployment types of a region; a region without PERSISTENT_2 has none of these quotas, or zero.
    """
    fsx = here.environment.fsx
    if fsx.existing:
        return
    others = [
        each
        for each in here.pages("fsx", "describe_file_systems", "FileSystems")
        if each.get("LustreConfiguration", {}).get("DeploymentType") == "PERSISTENT_2" and not _is_own(here, each)
    ]
    used = sum(each["StorageCapacity"] for each in others)
    yield from compared(
        here,
        [
            Demand("fsx", "Lustre Persistent_2 file systems", 1, len(others), "L-FD6F2F22"),
            Demand("fsx", "Lustre Persistent_2 storage capacity", fsx.capacity_gib, used, "L-8F1B9C74"),
        ],
    )


def _is_own(here: Here[Environment], file_system: dict[str, Any]) -> bool:
    """Return whether a stack owns the file system, or the CSI driver made it for the environment."""
    tag = {"Key": naming.ENVIRONMENT_TAG, "Value": naming.environment_tag(here.environment)}
    return here.deployed.has(file_system["FileSystemId"]) or tag in file_system.get("Tags", [])


def eks(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Compare EKS's quota of clusters.

    AWS: eks ListClusters; service-quotas. Source: EKS user guide, "Amazon EKS quotas".
    """
    if here.environment.eks.existing is None:
        clusters = here.pages("eks", "list_clusters", "clusters")
        used = sum(not here.deployed.owns("AWS::EKS::Cluster", name) for name in clusters)
        yield from compared(here, [Demand("eks", "Clusters", 1, used, "L-1194D53C")])


def system_nodes(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Compare EC2's quota of vCPUs with the system nodes: a new account may have as few as five.

    AWS: ec2 DescribeInstanceTypes, DescribeInstances; service-quotas. Source: EC2 user guide, "Amazon EC2 service
    quotas". HyperPod's nodes do not count: they run in an account of the service.
    """
    system = here.environment.eks.system_nodes
    if not _is_standard(system.instance_type):
        return
    [kind] = here.client("ec2").describe_instance_types(InstanceTypes=[system.instance_type])["InstanceTypes"]
    asked = system.count * kind["VCpuInfo"]["DefaultVCpus"]
    running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = here.pages("ec2", "describe_instances", "Reservations", Filters=running)
    used = sum(
        each["CpuOptions"]["CoreCount"] * each["CpuOptions"]["ThreadsPerCore"]
        for reservation in reservations
        for each in reservation["Instances"]
        if _is_standard(each["InstanceType"])
        and each.get("InstanceLifecycle") != "spot"
        and not _is_own_node(here, each)
    )
    name = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
    yield from compared(here, [Demand("ec2", name, asked, used, "L-1216C47A")])


def _is_standard(instance_type: str) -> bool:
    letters = _LETTERS.match(instance_type)
    return letters is not None and letters[0] not in _NOT_STANDARD and letters[0][0] in _STANDARD


def _is_own_node(here: Here[Environment], instance: dict[str, Any]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
    return here.deployed.has(f"{tags.get('eks:cluster-name')}/{tags.get('eks:nodegroup-name')}")
