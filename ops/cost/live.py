"""Count what an environment has at a standing price now: what its stacks own, and how many nodes there are."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from config import Environment, naming
from config.estimates.costs import SYSTEM_NODES, Inventory, PricedFileSystem, PricedNodes
from config.model import SystemNodes
from ops import hyperpod, stacks
from ops.clients import CallerAccount
from ops.errors import in_plain_words

TRACKING_SERVER: Final = "AWS::SageMaker::MlflowTrackingServer"


def live(environment: Environment) -> Inventory:
    """Return what exists; what is not deployed counts as nothing. Raises UnreachableError."""
    account = CallerAccount(environment)
    with in_plain_words():
        owned = _owned(environment, account.client("cloudformation"))
        return Inventory(
            groups=_groups(environment, account.client("sagemaker")),
            system=_system(environment.system_nodes, account.client("eks"), owned.get("AWS::EKS::Nodegroup", [])),
            control_plane=_control_plane(account.client("eks"), owned.get("AWS::EKS::Cluster", [])),
            nat_gateways=len(owned.get("AWS::EC2::NatGateway", [])),
            file_systems=tuple(
                _file_systems(environment, account.client("fsx"), owned.get("AWS::FSx::FileSystem", []))
            ),
            tracking_servers=len(owned.get(TRACKING_SERVER, [])),
        )


def _owned(environment: Environment, cloudformation: Any) -> Mapping[str, list[str]]:
    """Return the physical ids of the resources of the environment's stacks, by type."""
    found: dict[str, list[str]] = {}
    for stack in stacks.existing(cloudformation, environment):
        for each in stacks.resources(cloudformation, stack):
            if id := each.get("PhysicalResourceId"):
                found.setdefault(each["ResourceType"], []).append(id)
    return found


def _groups(environment: Environment, sagemaker: Any) -> tuple[PricedNodes, ...]:
    cluster = hyperpod.find(sagemaker, environment.hyperpod.cluster_name)
    groups = cluster["InstanceGroups"] if cluster else ()
    return tuple(PricedNodes(group["InstanceGroupName"], group["CurrentCount"], _type(group)) for group in groups)


def _type(group: Mapping[str, Any]) -> str:
    """Return the group's instance type. Which of several types its nodes have is not known, so they have no price."""
    several = group.get("InstanceRequirements", {}).get("CurrentInstanceTypes", [])
    return str(group.get("InstanceType") or " or ".join(several))


def _control_plane(eks: Any, names: list[str]) -> str | None:
    """Return the cluster's version of Kubernetes, which EKS may have raised since the deployment."""
    return next((str(eks.describe_cluster(name=name)["cluster"]["version"]) for name in names), None)


def _system(planned: SystemNodes | None, eks: Any, ids: list[str]) -> PricedNodes | None:
    if planned is None:
        return None
    count, kind = 0, planned.instance_type
    for id in ids:
        # The physical id of a node group is <cluster>/<node group>.
        cluster, _, name = id.partition("/")
        group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
        count += group["scalingConfig"]["desiredSize"]
        [kind] = group["instanceTypes"]
    return PricedNodes(SYSTEM_NODES, count, kind)


def _file_systems(environment: Environment, fsx: Any, ids: list[str]) -> Iterator[PricedFileSystem]:
    """Yield the file systems of the stacks, and those that the CSI driver made for the environment's claims."""
    tag = {"Key": naming.ENVIRONMENT_TAG, "Value": naming.environment_tag(environment)}
    for page in fsx.get_paginator("describe_file_systems").paginate():
        for each in page["FileSystems"]:
            is_claimed = tag in each.get("Tags", [])
            if (is_claimed or each["FileSystemId"] in ids) and each["Lifecycle"] != "DELETING":
                throughput = each["LustreConfiguration"]["PerUnitStorageThroughput"]
                yield PricedFileSystem(each["StorageCapacity"], throughput, is_claimed)
