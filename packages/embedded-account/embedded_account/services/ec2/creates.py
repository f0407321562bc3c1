"""Create EC2 resources with AWS's checks: a resource that does not exist or does not fit is refused.

Each function replaces the method of the same name in moto's EC2 backend; its docstring names the behaviour of moto
that it corrects. AWS's error codes: "Error codes for the Amazon EC2 API" in EC2's documentation.
"""

import ipaddress
from types import SimpleNamespace
from typing import Any, Final

from moto.ec2.exceptions import (
    EC2ClientError,
    InvalidParameterCombination,
    InvalidParameterValueError,
    VPCIdNotSpecifiedError,
)
from moto.ec2.models import EC2Backend
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.elastic_ip_addresses import ElasticAddressBackend
from moto.ec2.models.flow_logs import FlowLogsBackend
from moto.ec2.models.internet_gateways import InternetGatewayBackend
from moto.ec2.models.route_tables import RouteBackend
from moto.ec2.models.security_groups import SecurityGroupBackend
from moto.ec2.models.subnets import SubnetBackend
from moto.ec2.models.vpcs import VPCBackend
from moto.ec2.responses.tags import TagResponse

from embedded_account.services.service_quotas import limit

_PRIVATE_RANGES = [ipaddress.IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]


# Service, quota, error code and word of the error.
_VPCS: Final = ("vpc", "VPCs per Region", "VpcLimitExceeded", "VPCs")
_ADDRESSES: Final = ("ec2", "EC2-VPC Elastic IPs", "AddressLimitExceeded", "addresses")
_GATEWAYS: Final = ("vpc", "Internet gateways per Region", "InternetGatewayLimitExceeded", "internet gateways")
_create_tags: Final = TagResponse.create_tags


def install() -> None:
    """Replace the methods of moto's EC2 backend."""
    for function in _REPLACEMENTS:
        setattr(EC2Backend, function.__name__, function)
    TagResponse.create_tags = _create_own_tags


def _create_own_tags(response: Any) -> Any:
    """Correct moto, which lets callers set tags that only AWS sets. CloudFormation sets its tags in the backend."""
    keys = [tag["Key"] for tag in response._get_param("Tags", [])]
    if reserved := [key for key in keys if key.lower().startswith("aws:")]:
        raise InvalidParameterValueError(
            f"Value ( {reserved[0]} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for "
            "internal use"
        )
    return _create_tags(response)


def create_default_vpc(ec2: Any) -> Any:
    """Correct moto, which gives every account a default VPC.

    This account has none, so that no resource gets into it by accident.
    """
    if hasattr(ec2, "default_vpc"):
        raise EC2ClientError("OperationNotPermitted", "The embedded account has no default VPC.")
    return SimpleNamespace(id="")


def create_vpc(ec2: Any, *args: Any, **kwargs: Any) -> Any:
    """Correct moto, whose default security group lacks the rule that admits traffic between its members."""
    _check_quota(ec2, len(ec2.vpcs), _VPCS)
    vpc = VPCBackend.create_vpc(ec2, *args, **kwargs)
    group = ec2.get_default_security_group(vpc.id)
    ec2.authorize_security_group_ingress(group.id, "-1", None, None, [], source_groups=[{"GroupId": group.id}])
    return vpc


def associate_vpc_cidr_block(
    ec2: Any, vpc_id: str, cidr_block: str, amazon_provided_ipv6_cidr_block: bool
) -> dict[str, Any]:
    """Correct moto, which accepts any CIDR block.

    AWS refuses a block that overlaps another block of the VPC or is in a different private address range.
    """
    if cidr_block:
        _check_secondary_block(ec2.get_vpc(vpc_id), ipaddress.IPv4Network(cidr_block))
    associated: dict[str, Any] = VPCBackend.associate_vpc_cidr_block(
        ec2, vpc_id, cidr_block, amazon_provided_ipv6_cidr_block
    )
    return associated


def _check_secondary_block(vpc: Any, block: ipaddress.IPv4Network) -> None:
    """Raise EC2's error unless the block can be added to the VPC.

    Source: "IPv4 CIDR block association restrictions" in the VPC user guide.
    """
    if not 16 <= block.prefixlen <= 28:
        raise EC2ClientError("InvalidVpc.Range", f"The CIDR '{block}' is invalid.")
    primary = ipaddress.IPv4Network(vpc.cidr_block)
    own_range = [private for private in _PRIVATE_RANGES if primary.subnet_of(private)]
    block_range = [private for private in _PRIVATE_RANGES if block.subnet_of(private)]
    if own_range and block_range and own_range != block_range:
        raise EC2ClientError(
            "InvalidVpc.Range",
            f"The CIDR '{block}' is restricted. Use a CIDR from the same private address range as the current "
            "VPC CIDR, or use a publicly-routable CIDR. For additional restrictions, see "
            "https://docs.aws.amazon.com/AmazonVPC/latest/UserGuide/VPC_Subnets.html#VPC_Sizing",
        )
    if any(block.overlaps(ipaddress.IPv4Network(each["cidr_block"])) for each in vpc.cidr_block_association_set):
        raise EC2ClientError("InvalidVpc.Range", f"The CIDR '{block}' overlaps a CIDR of the VPC.")


def create_subnet(  # noqa: PLR0917 - moto's own signature
    ec2: Any,
    vpc_id: str,
    cidr_block: str,
    ipv6_cidr_block: str | None = None,
    availability_zone: str | None = None,
    availability_zone_id: str | None = None,
    **others: Any,
) -> Any:
    """Correct moto, which accepts zones of any region and loses the name of a zone that is given by id.

    moto also makes the first subnet of each zone a default subnet with public addresses.
    """
    if availability_zone and availability_zone_id:
        raise InvalidParameterCombination(
            "The parameter AvailabilityZone cannot be used with the parameter AvailabilityZoneId"
        )
    if ipaddress.IPv4Network(cidr_block, strict=False).prefixlen > 28:
        raise EC2ClientError("InvalidSubnet.Range", f"The CIDR '{cidr_block}' is invalid.")
    zones = RegionsAndZonesBackend.zones[ec2.region_name]
    wanted = availability_zone or availability_zone_id or zones[0].name
    name = next((zone.name for zone in zones if wanted in (zone.name, zone.zone_id)), None)
    if name is None:
        parameter = "availabilityZone" if availability_zone else "availabilityZoneId"
        names = ", ".join(zone.name if availability_zone else zone.zone_id for zone in zones)
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ({wanted}) for parameter {parameter} is invalid. Subnets can currently only be created in "
            f"the following availability zones: {names}.",
        )
    subnet = SubnetBackend.create_subnet(ec2, vpc_id, cidr_block, ipv6_cidr_block, name, None, **others)
    subnet.default_for_az = False
    subnet.map_public_ip_on_launch = False
    return subnet


def create_security_group(ec2: Any, name: str, description: str, **others: Any) -> Any:
    """Correct moto, which creates groups in VPCs that do not exist.

    moto also creates groups in the default VPC, and this account has no default VPC.
    """
    if not others.get("vpc_id"):
        raise VPCIdNotSpecifiedError
    ec2.get_vpc(others["vpc_id"])
    if name.startswith("sg-"):
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ({name}) for parameter GroupName is invalid. Group names may not be in the format sg-*.",
        )
    return SecurityGroupBackend.create_security_group(ec2, name, description, **others)


def authorize_security_group_ingress(ec2: Any, group_name_or_id: str, *rule: Any, **more: Any) -> Any:
    """Correct moto, which accepts ports out of order or out of range."""
    _check_rule(*rule, **more)
    return SecurityGroupBackend.authorize_security_group_ingress(ec2, group_name_or_id, *rule, **more)


def authorize_security_group_egress(ec2: Any, group_name_or_id: str, *rule: Any, **more: Any) -> Any:
    """Correct moto in the same way as `authorize_security_group_ingress` does."""
    _check_rule(*rule, **more)
    return SecurityGroupBackend.authorize_security_group_egress(ec2, group_name_or_id, *rule, **more)


def _check_rule(ip_protocol: str, from_port: Any, to_port: Any, ip_ranges: Any, *_: Any, **_others: Any) -> None:
    ports = [int(port) for port in (from_port, to_port) if port is not None]
    if str(ip_protocol) in {"tcp", "udp", "6", "17"}:
        for port in ports:
            if not 0 <= port <= 65535:
                raise InvalidParameterValueError(f"Invalid value '{port}' for portRange. Must be between 0 and 65535")
        if len(ports) == 2 and ports[0] > ports[1]:
            raise InvalidParameterValueError("Invalid TCP/UDP port range. The first port is above the last.")
    for each in ip_ranges or ():
        cidr = each.get("CidrIp") if isinstance(each, dict) else each
        try:
            ipaddress.ip_network(cidr or "0.0.0.0/0", strict=False)
        except ValueError as error:
            raise InvalidParameterValueError(f"CIDR block {cidr} is malformed") from error


def allocate_address(ec2: Any, *args: Any, **kwargs: Any) -> Any:
    """Correct moto, which allocates any number of addresses."""
    _check_quota(ec2, len(ec2.addresses), _ADDRESSES)
    return ElasticAddressBackend.allocate_address(ec2, *args, **kwargs)


def create_internet_gateway(ec2: Any, *args: Any, **kwargs: Any) -> Any:
    """Correct moto, which creates any number of internet gateways."""
    _check_quota(ec2, len(ec2.internet_gateways), _GATEWAYS)
    return InternetGatewayBackend.create_internet_gateway(ec2, *args, **kwargs)


def _check_quota(ec2: Any, used: int, quota: tuple[str, str, str, str]) -> None:
    service, name, code, things = quota
    if used >= limit(ec2.account_id, ec2.region_name, service, name):
        raise EC2ClientError(code, f"The maximum number of {things} has been reached.")


def attach_internet_gateway(ec2: Any, internet_gateway_id: str, vpc_id: str) -> Any:
    """Correct moto, which attaches several internet gateways to a VPC."""
    if any(each.vpc is not None and each.vpc.id == vpc_id for each in ec2.internet_gateways.values()):
        wanted = ec2.get_internet_gateway(internet_gateway_id)
        if wanted.vpc is None:
            raise InvalidParameterValueError(f"Network {vpc_id} already has an internet gateway attached")
    return InternetGatewayBackend.attach_internet_gateway(ec2, internet_gateway_id, vpc_id)


def associate_route_table(
    ec2: Any, route_table_id: str, gateway_id: str | None = None, subnet_id: str | None = None
) -> str:
    """Correct moto, which reports success but keeps the subnet's old route table."""
    for table in ec2.route_tables.values():
        if table.id != route_table_id and subnet_id and subnet_id in table._associations.values():
            raise EC2ClientError(
                "Resource.AlreadyAssociated",
                f"the specified association for route table {route_table_id} conflicts with an existing association",
            )
    table = ec2.get_route_table(route_table_id)
    if subnet_id and ec2.get_subnet(subnet_id).vpc_id != table.vpc_id:
        raise InvalidParameterValueError(
            f"Route table {route_table_id} and subnet {subnet_id} belong to different networks"
        )
    return str(RouteBackend.associate_route_table(ec2, route_table_id, gateway_id, subnet_id))


def create_route(ec2: Any, route_table_id: str, *args: Any, **kwargs: Any) -> Any:
    """Correct moto, which accepts NAT gateways that do not exist and internet gateways of another VPC."""
    _check_target(ec2, route_table_id, kwargs)
    return RouteBackend.create_route(ec2, route_table_id, *args, **kwargs)


def replace_route(ec2: Any, route_table_id: str, *args: Any, **kwargs: Any) -> Any:
    """Correct moto in the same way as `create_route` does."""
    _check_target(ec2, route_table_id, kwargs)
    return RouteBackend.replace_route(ec2, route_table_id, *args, **kwargs)


def _check_target(ec2: Any, route_table_id: str, target: dict[str, Any]) -> None:
    if nat_gateway_id := target.get("nat_gateway_id"):
        nat_gateway = ec2.nat_gateways.get(nat_gateway_id)
        if nat_gateway is None or nat_gateway.state == "deleted":
            raise EC2ClientError("InvalidNatGatewayID.NotFound", f"The natGateway ID '{nat_gateway_id}' does not exist")
    gateway_id = target.get("gateway_id") or ""
    if gateway_id.startswith("igw-"):
        vpc = ec2.get_internet_gateway(gateway_id).vpc
        if vpc is None or vpc.id != ec2.get_route_table(route_table_id).vpc_id:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"route table {route_table_id} and network gateway {gateway_id} belong to different networks",
            )


def create_flow_logs(
    ec2: Any,
    resource_type: str,
    resource_ids: list[str],
    *,
    log_destination_type: str | None = None,
    log_destination: str | None = None,
    **others: Any,
) -> tuple[list[Any], list[Any]]:
    """Correct moto, which reads a prefix in the bucket's ARN as part of the bucket's name."""
    destination = log_destination
    if log_destination_type == "s3" and log_destination:
        destination = log_destination.split("/")[0]
    made, failed = FlowLogsBackend.create_flow_logs(
        ec2,
        resource_type,
        resource_ids,
        log_destination_type=log_destination_type,
        log_destination=destination,
        **others,
    )
    for flow_log in made:
        flow_log.log_destination = log_destination
    return made, failed


_REPLACEMENTS = (
    create_default_vpc,
    create_vpc,
    associate_vpc_cidr_block,
    create_subnet,
    create_security_group,
    authorize_security_group_ingress,
    authorize_security_group_egress,
    allocate_address,
    create_internet_gateway,
    attach_internet_gateway,
    associate_route_table,
    create_route,
    replace_route,
    create_flow_logs,
)
