"""What the environment says exists already: a VPC with its subnets, an EKS cluster, a file system.

Simulated: on AWS their owner made them, here the rehearsal does, before the bootstrap and under the ids of the
environment file. Whatever is in the account when this is done belongs to "existing" in the inventory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from moto.ec2.models import ec2_backends
from werkzeug.wrappers import Request

from config import Environment
from config.model import ExistingSubnet, ExistingVpc
from embedded_account.inventory import report as inventory
from embedded_account.services.eks import existing as existing_cluster
from embedded_account.services.fsx import existing as existing_file_system

if TYPE_CHECKING:
    from embedded_account.context import Account

_ANYWHERE = "0.0.0.0/0"


def install(account: "Account") -> None:
    """Answer POST /_rehearsal/existing, whose body is an environment; returns the ids of all that is there then."""

    def make_all(request: Request, _rest: str) -> list[str]:
        make(account, Environment.model_validate_json(request.get_data()))
        return sorted(account.existing)

    account.routes.route("POST", "existing", make_all)


def make(account: "Account", environment: Environment) -> None:
    """Make what the environment says exists, and record whose it is."""
    if environment.network.existing:
        _make_vpc(account, environment.network.existing)
    if environment.eks.existing:
        existing_cluster.make(account, environment)
    if environment.fsx.existing and environment.network.existing:
        existing_file_system.make(account, environment.fsx.existing, environment.network.existing)
    account.existing.update(item.id for item in inventory.collect(account))


@contextmanager
def given_id(function: str, identifier: str) -> Iterator[None]:
    """Let moto's `function` (its dotted name), which invents an id, return this one."""
    with patch(function, return_value=identifier):
        yield


def _make_vpc(account: "Account", wanted: ExistingVpc) -> None:
    """A VPC as owners have it: private subnets with a NAT gateway, an S3 endpoint, DNS names."""
    ec2: Any = ec2_backends[account.account_id][account.region]
    with given_id("moto.ec2.models.vpcs.random_vpc_id", wanted.id):
        ec2.create_vpc(str(wanted.cidr))
    for attribute in ("enable_dns_support", "enable_dns_hostnames"):
        ec2.modify_vpc_attribute(wanted.id, attribute, "true")
    private = ec2.create_route_table(wanted.id).id
    for subnet in (*wanted.node_subnets, *wanted.control_plane_subnets):
        with given_id("moto.ec2.models.subnets.random_subnet_id", subnet.id):
            ec2.create_subnet(wanted.id, str(subnet.cidr), availability_zone_id=subnet.zone)
        ec2.associate_route_table(private, subnet_id=subnet.id)
    ec2.create_route(private, _ANYWHERE, nat_gateway_id=_nat_gateway(ec2, wanted))
    ec2.create_vpc_endpoint(wanted.id, f"com.amazonaws.{account.region}.s3", "Gateway", None, [private])


def _nat_gateway(ec2: Any, wanted: ExistingVpc) -> str:
    """Return the id of a NAT gateway in a public subnet of its own."""
    internet = ec2.create_internet_gateway().id
    ec2.attach_internet_gateway(internet, wanted.id)
    public = ec2.create_subnet(wanted.id, str(_free_block(wanted)), availability_zone_id=wanted.node_subnets[0].zone)
    table = ec2.create_route_table(wanted.id).id
    ec2.associate_route_table(table, subnet_id=public.id)
    ec2.create_route(table, _ANYWHERE, gateway_id=internet)
    address = ec2.allocate_address("vpc").allocation_id
    return str(ec2.create_nat_gateway(public.id, address).id)


def _free_block(wanted: ExistingVpc) -> IPv4Network:
    """Return the first /28 of the VPC that no subnet of the environment touches."""
    subnets: tuple[ExistingSubnet, ...] = (*wanted.node_subnets, *wanted.control_plane_subnets)
    blocks = wanted.cidr.subnets(new_prefix=28)
    return next(block for block in blocks if not any(block.overlaps(subnet.cidr) for subnet in subnets))
