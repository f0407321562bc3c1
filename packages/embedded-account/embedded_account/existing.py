"""Create the infrastructure that a deployment reuses: a VPC, an EKS cluster, a file system, a KMS key.

Simulated: on AWS their owner created them; here the account does, before the bootstrap and with the ids that the
caller gives. In the inventory, everything that is in the account afterwards belongs to "existing".
"""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from moto.ec2.models import ec2_backends
from moto.kms.models import kms_backends
from pydantic import ValidationError
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Request

from embedded_account.existing_description import DescribedVpc, ExistingResources
from embedded_account.inventory import report as inventory
from embedded_account.services.eks import existing as existing_cluster
from embedded_account.services.fsx import existing as existing_file_system

if TYPE_CHECKING:
    from embedded_account.context import Account

_ANYWHERE = "0.0.0.0/0"


def install(account: "Account") -> None:
    """Answer POST /_rehearsal/existing (an `ExistingResources`) with the ids of everything in the account."""

    def make_all(request: Request, _rest: str) -> list[str]:
        make(account, _described(request.get_data()))
        return sorted(account.existing)

    account.routes.route("POST", "existing", make_all)


def make(account: "Account", wanted: ExistingResources) -> None:
    """Create the existing infrastructure, and record its owner."""
    if wanted.vpc:
        _make_vpc(account, wanted.vpc)
    if wanted.cluster:
        existing_cluster.make(account, wanted.cluster)
    if wanted.vpc and wanted.file_system:
        existing_file_system.make(account, wanted.file_system, wanted.vpc)
    if wanted.key:
        with given_id("moto.kms.models.generate_key_id", wanted.key.id):
            kms: Any = kms_backends[account.account_id][account.region]
            kms.create_key(wanted.key.policy, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "existing key", None)
    account.existing.update(item.id for item in inventory.collect(account))


def _described(body: bytes) -> ExistingResources:
    """Return the description. Raises BadRequest saying where it is wrong."""
    try:
        return ExistingResources.model_validate_json(body)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise BadRequest(f"{found}. Allowed: {', '.join(ExistingResources.model_fields)}") from error


@contextmanager
def given_id(function: str, identifier: str) -> Iterator[None]:
    """Make moto's `function` (a dotted name), which generates an id, return this id."""
    with patch(function, return_value=identifier):
        yield


def _make_vpc(account: "Account", wanted: DescribedVpc) -> None:
    """Create a typical VPC: private subnets with a NAT gateway, an S3 endpoint, DNS names."""
    ec2: Any = ec2_backends[account.account_id][account.region]
    with given_id("moto.ec2.models.vpcs.random_vpc_id", wanted.id):
        ec2.create_vpc(str(wanted.cidr))
    for attribute in ("enable_dns_support", "enable_dns_hostnames"):
        ec2.modify_vpc_attribute(wanted.id, attribute, "true")
    private = ec2.create_route_table(wanted.id).id
    for subnet in wanted.subnets:
        with given_id("moto.ec2.models.subnets.random_subnet_id", subnet.id):
            ec2.create_subnet(wanted.id, str(subnet.cidr), availability_zone_id=subnet.zone_id)
        ec2.associate_route_table(private, subnet_id=subnet.id)
    ec2.create_route(private, _ANYWHERE, nat_gateway_id=_nat_gateway(ec2, wanted))
    ec2.create_vpc_endpoint(wanted.id, f"com.amazonaws.{account.region}.s3", "Gateway", None, [private])


def _nat_gateway(ec2: Any, wanted: DescribedVpc) -> str:
    """Create a NAT gateway in a new public subnet; return its id."""
    internet = ec2.create_internet_gateway().id
    ec2.attach_internet_gateway(internet, wanted.id)
    public = ec2.create_subnet(wanted.id, str(_free_block(wanted)), availability_zone_id=wanted.subnets[0].zone_id)
    table = ec2.create_route_table(wanted.id).id
    ec2.associate_route_table(table, subnet_id=public.id)
    ec2.create_route(table, _ANYWHERE, gateway_id=internet)
    address = ec2.allocate_address("vpc").allocation_id
    return str(ec2.create_nat_gateway(public.id, address).id)


def _free_block(wanted: DescribedVpc) -> IPv4Network:
    """Return the first /28 of the VPC that overlaps none of its private subnets."""
    blocks = wanted.cidr.subnets(new_prefix=28)
    return next(block for block in blocks if not any(block.overlaps(subnet.cidr) for subnet in wanted.subnets))
