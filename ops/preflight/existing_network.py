"""Checks of an existing VPC: that it is as the environment says, and has what nodes need."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from config import Environment
from config.estimates.addresses import subnet_uses
from config.model import ExistingSubnet, ExistingVpc
from ops.preflight.check import CheckFinding, CheckStatus, failed, passed, warned
from ops.preflight.here import Here

# EKS user guide, "View Amazon EKS networking requirements for VPC and subnets": at least six free addresses.
CONTROL_PLANE_ADDRESSES: Final = 6
_ANYWHERE: Final = "0.0.0.0/0"


def vpc(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require the VPC with its owner, block, DNS support and DNS host names.

    AWS: ec2 DescribeVpcs, DescribeVpcAttribute. Source: EKS user guide, "View Amazon EKS networking requirements for
    VPC and subnets": without DNS nodes do not find the cluster, the file system and interface endpoints. VPC user
    guide, "Responsibilities and permissions for owners and participants" and "AWS resources and shared VPC subnets".
    """
    wanted = here.environment.network.existing
    if wanted is None:
        return
    ec2, region = here.client("ec2"), here.environment.region
    try:
        [found] = ec2.describe_vpcs(VpcIds=[wanted.id])["Vpcs"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidVpcID.NotFound":
            raise
        yield failed("does not exist", "correct network.existing.id: `aws ec2 describe-vpcs` lists the ids", wanted.id)
        return
    if owner := _owner(here, wanted, found["OwnerId"]):
        yield owner
        if owner.verdict is CheckStatus.FAIL:
            # The roles name the VPC by its owner, too: whoever looks is refused the rest.
            return
    blocks = {found["CidrBlock"], *(each["CidrBlock"] for each in found.get("CidrBlockAssociationSet", []))}
    if str(wanted.cidr) not in blocks:
        yield failed(", ".join(sorted(blocks)), "correct network.existing.cidr", f"{wanted.id} block")
    for attribute, option in (("enableDnsSupport", "support"), ("enableDnsHostnames", "hostnames")):
        answer = ec2.describe_vpc_attribute(VpcId=wanted.id, Attribute=attribute)
        if answer[attribute[0].upper() + attribute[1:]]["Value"]:
            yield passed("on", f"{wanted.id} DNS {option}")
        else:
            fix = f"aws ec2 modify-vpc-attribute --vpc-id {wanted.id} --enable-dns-{option} --region {region}"
            yield failed("off", fix, f"{wanted.id} DNS {option}")


def _owner(here: Here[Environment], wanted: ExistingVpc, owner: str) -> CheckFinding | None:
    """Compare the VPC's owner with the environment's; return None if it is this account."""
    own, title = here.environment.account, f"{wanted.id} owner"
    if owner != (wanted.owner or own):
        fix = "remove network.existing.owner" if owner == own else f'write owner: "{owner}" in network.existing'
        return failed(f"account {owner}; the environment says {wanted.owner or own}", fix, title)
    if owner == own:
        return None
    fix = "ask AWS Support; VPC user guide, AWS resources and shared VPC subnets; or use a VPC of this account"
    text = f"account {owner} shares its subnets: AWS lists EKS for them, not SageMaker HyperPod and FSx for Lustre"
    return warned(text, fix, title)


def subnets(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require the subnets, each in its VPC, zone and block, with enough free addresses.

    AWS: ec2 DescribeSubnets. Source: SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod" (81
    addresses for a p5 node); EKS user guide, as for CONTROL_PLANE_ADDRESSES.
    """
    wanted = here.environment.network.existing
    if wanted is None:
        return
    found = {
        each["SubnetId"]: each
        for each in here.pages(
            "ec2", "describe_subnets", "Subnets", Filters=[{"Name": "vpc-id", "Values": [wanted.id]}]
        )
    }
    needs = {use.zone: use.used for use in subnet_uses(here.environment)}
    for subnet in wanted.node_subnets:
        yield _subnet(here, wanted, subnet, found, needs[subnet.zone])
    for subnet in wanted.control_plane_subnets:
        yield _subnet(here, wanted, subnet, found, CONTROL_PLANE_ADDRESSES)


def _subnet(
    here: Here[Environment],
    vpc: ExistingVpc,
    subnet: ExistingSubnet,
    found: Mapping[str, Mapping[str, Any]],
    needed: int,
) -> CheckFinding:
    there = found.get(subnet.id)
    if there is None:
        fix = f"aws ec2 describe-subnets --filters Name=vpc-id,Values={vpc.id}; correct network.existing"
        return failed(f"is not a subnet of {vpc.id}", fix, subnet.id)
    stated = (subnet.zone, str(subnet.cidr))
    real = (there["AvailabilityZoneId"], there["CidrBlock"])
    if stated != real:
        text = f"is in {real[0]} with {real[1]}; the environment says {stated[0]} with {stated[1]}"
        return failed(text, "correct zone and cidr of the subnet in network.existing", subnet.id)
    free = there["AvailableIpAddressCount"]
    text = f"{free:,} addresses free, {needed:,} needed"
    if free >= needed:
        return passed(text, subnet.id)
    if here.deployed.states:
        return warned(f"{text}, of which the environment already uses some", "lower counts, or move groups", subnet.id)
    return failed(text, "lower counts, move groups to another zone, or name a larger subnet", subnet.id)


def routes(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require a way out of each subnet that works without public addresses.

    AWS: ec2 DescribeRouteTables. Source: VPC user guide, "Route tables" and "Internet gateways": an internet gateway
    serves only interfaces with a public address, and nodes have none.
    """
    wanted = here.environment.network.existing
    if wanted is None:
        return
    tables = here.pages(
        "ec2", "describe_route_tables", "RouteTables", Filters=[{"Name": "vpc-id", "Values": [wanted.id]}]
    )
    for subnet in wanted.node_subnets:
        table = _table_of(subnet.id, tables)
        yield (
            _route(subnet.id, table)
            if table
            else failed("has no route table", "correct network.existing: the VPC does not have this subnet", subnet.id)
        )


def _table_of(subnet: str, tables: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the subnet's own route table, else the VPC's main one."""
    by = {
        association.get("SubnetId", "main" if association.get("Main") else ""): table
        for table in tables
        for association in table["Associations"]
    }
    return by.get(subnet, by.get("main"))


def _route(subnet: str, table: Mapping[str, Any]) -> CheckFinding:
    create = (
        f"aws ec2 create-route --route-table-id {table['RouteTableId']} --destination-cidr-block {_ANYWHERE} "
        "--nat-gateway-id NAT"
    )
    route = next((each for each in table["Routes"] if each.get("DestinationCidrBlock") == _ANYWHERE), None)
    if route is None:
        text = f"{table['RouteTableId']} has no default route: nodes need interface endpoints for AWS's APIs"
        return warned(text, f"{create}, or see docs/operate/networks.md", subnet)
    if route.get("State") == "blackhole":
        text = f"the default route of {table['RouteTableId']} leads to something that was deleted"
        return failed(text, create.replace("create-route", "replace-route"), subnet)
    if route.get("GatewayId", "").startswith("igw-"):
        text = f"the default route of {table['RouteTableId']} is an internet gateway: nodes have no public address"
        return failed(text, create.replace("create-route", "replace-route"), subnet)
    target = next((route[key] for key in sorted(route) if key.endswith("Id") and route[key]), "another network")
    return passed(f"has a default route to {target}", subnet)
