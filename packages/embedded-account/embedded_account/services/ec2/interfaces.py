"""Create NAT gateways and VPC endpoints with their network interfaces, as AWS does.

Each public function replaces the method of the same name in moto's EC2 backend. Its docstring names the behaviour of
moto that it corrects.
"""

import json
from typing import Any

from moto.ec2.exceptions import EC2ClientError, InvalidServiceName
from moto.ec2.models import EC2Backend
from moto.ec2.models.nat_gateways import NatGatewayBackend
from moto.ec2.models.vpcs import VPCEndPoint
from moto.ec2.utils import create_dns_entries, random_vpc_ep_id

from embedded_account.background import Background, free_addresses
from embedded_account.context import Account

_backgrounds: dict[tuple[str, str], Background] = {}


def install(account: Account) -> None:
    """Replace the methods of moto's EC2 backend."""
    _backgrounds[account.account_id, account.region] = account.background
    for function in _REPLACEMENTS:
        setattr(EC2Backend, function.__name__, function)


def _background(ec2: Any) -> Background:
    return _backgrounds[ec2.account_id, ec2.region_name]


def _arn(ec2: Any, kind: str, identifier: str) -> str:
    return f"arn:{ec2.partition}:ec2:{ec2.region_name}:{ec2.account_id}:{kind}/{identifier}"


def _types_of(ec2: Any, service: str) -> list[str]:
    """Return the types of endpoints that the service offers. Raises moto's error if there is no such service."""
    if service == f"aws.sagemaker.{ec2.region_name}.experiments":
        return ["Interface"]  # moto's list lacks SageMaker's MLflow (PrivateLink guide, services that integrate)
    offered = ec2.describe_vpc_endpoint_services([service], [], 0, None, ec2.region_name)
    return [each["ServiceType"] for found in offered["servicesDetails"] for each in found["ServiceType"]]


def create_nat_gateway(
    ec2: Any,
    subnet_id: str,
    allocation_id: str,
    tags: dict[str, str] | None = None,
    connectivity_type: str | None = None,
) -> Any:
    """Correct moto, which requires no internet gateway.

    moto also records no owner of the gateway's interface and takes the interface's address from no subnet.
    """
    connectivity = connectivity_type or "public"
    subnet = ec2.get_subnet(subnet_id)
    if connectivity == "public":
        _check_public_nat(ec2, subnet, allocation_id)
    address = free_addresses(ec2, subnet, 1)[0]
    gateway = NatGatewayBackend.create_nat_gateway(ec2, subnet_id, allocation_id, tags, connectivity)
    interface = gateway._eni
    interface.private_ip_address = gateway.private_ip = address
    interface.private_ip_addresses = [{"Primary": True, "PrivateIpAddress": address}]
    interface.description = f"Interface for NAT Gateway {gateway.id}"
    gateway.address_set[0]["privateIp"] = address
    _background(ec2).adopt_interface(interface, _arn(ec2, "natgateway", gateway.id), interface_type="nat_gateway")
    return gateway


def _check_public_nat(ec2: Any, subnet: Any, allocation_id: str) -> None:
    """Raise EC2's error unless the address and the VPC allow a public NAT gateway.

    The messages are those of `NatGateway.FailureMessage` in the EC2 API reference.
    """
    if not allocation_id:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter AllocationId")
    address = ec2.address_by_allocation([allocation_id])[0]
    if address.association_id:
        raise EC2ClientError("Resource.AlreadyAssociated", f"Elastic IP address {allocation_id} is already associated")
    vpcs = [gateway.vpc.id for gateway in ec2.internet_gateways.values() if gateway.vpc]
    if subnet.vpc_id not in vpcs:
        raise EC2ClientError("Gateway.NotAttached", f"Network {subnet.vpc_id} has no Internet gateway attached")


def delete_nat_gateway(ec2: Any, nat_gateway_id: str) -> Any:
    """Correct moto, which keeps the gateway's interface and the association of its address.

    The gateway remains listed as deleted; AWS lists it for an hour.
    """
    gateway = ec2.nat_gateways.get(nat_gateway_id)
    if gateway is None or gateway.state == "deleted":
        raise EC2ClientError("NatGatewayNotFound", f"The Nat Gateway {nat_gateway_id} was not found")
    for address in gateway.address_set:
        if public := address.get("publicIp"):
            ec2.disassociate_address(address=public)
    _background(ec2).drop(gateway._eni.id)
    return NatGatewayBackend.delete_nat_gateway(ec2, nat_gateway_id)


def create_vpc_endpoint(  # noqa: PLR0917 - moto's own signature
    ec2: Any,
    vpc_id: str,
    service_name: str,
    endpoint_type: str | None,
    policy_document: str | None,
    route_table_ids: list[str],
    subnet_ids: list[str] | None = None,
    security_group_ids: list[str] | None = None,
    client_token: str | None = None,
    tags: dict[str, str] | None = None,
    private_dns_enabled: bool | None = None,
) -> VPCEndPoint:
    """Correct moto, which accepts any service and does not check DNS.

    moto also gives interfaces random addresses and no security group.
    """
    ec2.get_vpc(vpc_id)
    kind = endpoint_type or "Gateway"
    if kind not in _types_of(ec2, service_name):
        raise InvalidServiceName(service_name)
    endpoint = VPCEndPoint(
        ec2,
        random_vpc_ep_id(),
        vpc_id,
        service_name,
        kind,
        policy_document or json.dumps(VPCEndPoint.DEFAULT_POLICY),
        [],
        [],
        client_token=client_token,
        tags=tags,
        private_dns_enabled=bool(private_dns_enabled) if kind == "Interface" else False,
        dns_entries=[],
    )
    if kind == "Gateway":
        endpoint.destination_prefix_list_id = _prefix_list_id(ec2, service_name)
        _add_routes(ec2, endpoint, route_table_ids)
    else:
        _check_interface_endpoint(ec2, endpoint, subnet_ids or [])
        default = [ec2.get_default_security_group(vpc_id).id]
        endpoint.security_group_ids = list(security_group_ids or default)
        endpoint.dns_entries = [create_dns_entries(service_name, endpoint.id)]
        _add_subnets(ec2, endpoint, subnet_ids or [])
    ec2.vpc_end_points[endpoint.id] = endpoint
    return endpoint


def modify_vpc_endpoint(  # noqa: PLR0917 - moto's own signature
    ec2: Any,
    vpc_id: str,
    policy_doc: str | None,
    add_subnets: list[str] | None,
    remove_subnets: list[str] | None,
    remove_route_tables: list[str] | None,
    add_route_tables: list[str] | None,
    add_security_groups: list[str] | None,
    remove_security_groups: list[str] | None,
) -> None:
    """Correct moto, which changes only the lists of ids, not the routes and interfaces.

    `vpc_id` is moto's name for the endpoint's id.
    """
    endpoint = ec2.get_vpc_end_point(vpc_id)
    if policy_doc:
        endpoint.policy_document = policy_doc
    _remove_routes(ec2, endpoint, remove_route_tables or [])
    _add_routes(ec2, endpoint, add_route_tables or [])
    kept = [each for each in endpoint.security_group_ids if each not in (remove_security_groups or [])]
    endpoint.security_group_ids = [*kept, *(add_security_groups or [])]
    _remove_subnets(ec2, endpoint, remove_subnets or [])
    _add_subnets(ec2, endpoint, add_subnets or [])
    for interface_id in endpoint.network_interface_ids:
        ec2.modify_network_interface_attribute(interface_id, endpoint.security_group_ids)


def delete_vpc_endpoints(ec2: Any, vpce_ids: list[str] | None = None) -> None:
    """Correct moto, which keeps deleted endpoints forever and reports success for unknown endpoints."""
    for endpoint in [ec2.get_vpc_end_point(each) for each in vpce_ids or []]:
        _remove_routes(ec2, endpoint, list(endpoint.route_table_ids))
        _remove_subnets(ec2, endpoint, list(endpoint.subnet_ids))
        del ec2.vpc_end_points[endpoint.id]


def _prefix_list_id(ec2: Any, service_name: str) -> str:
    return next(str(each.id) for each in ec2.managed_prefix_lists.values() if each.prefix_list_name == service_name)


def _add_routes(ec2: Any, endpoint: VPCEndPoint, route_table_ids: list[str]) -> None:
    prefix_list_id = endpoint.destination_prefix_list_id
    for table_id in route_table_ids:
        table = ec2.get_route_table(table_id)
        if any(route.destination_prefix_list_id == prefix_list_id for route in table.routes):
            raise EC2ClientError(
                "RouteAlreadyExists",
                f"route table {table_id} already has a route with destination-prefix-list-id {prefix_list_id}",
            )
        if table.vpc_id != endpoint.vpc_id:
            raise EC2ClientError(
                "InvalidParameter", f"The route table {table_id} does not belong to the VPC {endpoint.vpc_id}"
            )
    ec2.vpc_end_points[endpoint.id] = endpoint  # create_route looks up the endpoint as the route's gateway
    for table_id in route_table_ids:
        ec2.create_route(table_id, None, gateway_id=endpoint.id, destination_prefix_list_id=prefix_list_id)
        endpoint.route_table_ids.append(table_id)


def _remove_routes(ec2: Any, endpoint: VPCEndPoint, route_table_ids: list[str]) -> None:
    for table_id in route_table_ids:
        endpoint.route_table_ids.remove(table_id)
        if table_id in ec2.route_tables:
            ec2.delete_route(table_id, None, destination_prefix_list_id=endpoint.destination_prefix_list_id)


def _check_interface_endpoint(ec2: Any, endpoint: VPCEndPoint, subnet_ids: list[str]) -> None:
    """Raise CreateVpcEndpoint's error if an interface endpoint is not allowed."""
    vpc = ec2.get_vpc(endpoint.vpc_id)
    zones = [ec2.get_subnet(subnet_id).availability_zone for subnet_id in subnet_ids]
    for number, zone in enumerate(zones):
        if zone in zones[:number]:
            raise EC2ClientError(
                "DuplicateSubnetsInSameZone",
                f"Found another VPC endpoint subnet in the availability zone of {subnet_ids[number]}",
            )
    if not endpoint.private_dns_enabled:
        return
    if not (_true(vpc.enable_dns_support) and _true(vpc.enable_dns_hostnames)):
        raise EC2ClientError(
            "InvalidParameter",
            "Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to "
            f"true for {vpc.id}",
        )
    for other in ec2.vpc_end_points.values():
        same = other.service_name == endpoint.service_name and other.vpc_id == endpoint.vpc_id
        if same and other.private_dns_enabled:
            raise EC2ClientError(
                "InvalidParameter",
                "private-dns-enabled cannot be set because there is already a conflicting DNS domain for "
                f"{endpoint.service_name} in the VPC {vpc.id}",
            )


def _true(attribute: Any) -> bool:
    """Return whether a VPC attribute is true; moto stores a boolean or the request's text."""
    return str(attribute).lower() == "true"


def _add_subnets(ec2: Any, endpoint: VPCEndPoint, subnet_ids: list[str]) -> None:
    for subnet_id in subnet_ids:
        interface = _background(ec2).network_interface(
            maker_arn=_arn(ec2, "vpc-endpoint", endpoint.id),
            description=f"VPC Endpoint Interface {endpoint.id}",
            subnet_id=subnet_id,
            security_group_ids=endpoint.security_group_ids,
            interface_type="vpc_endpoint",
        )
        endpoint.network_interface_ids.append(interface.id)
        endpoint.subnet_ids.append(subnet_id)


def _remove_subnets(ec2: Any, endpoint: VPCEndPoint, subnet_ids: list[str]) -> None:
    for subnet_id in subnet_ids:
        endpoint.subnet_ids.remove(subnet_id)
        for interface_id in list(endpoint.network_interface_ids):
            if ec2.get_network_interface(interface_id).subnet.id == subnet_id:
                endpoint.network_interface_ids.remove(interface_id)
                _background(ec2).drop(interface_id)


_REPLACEMENTS = (
    create_nat_gateway,
    delete_nat_gateway,
    create_vpc_endpoint,
    modify_vpc_endpoint,
    delete_vpc_endpoints,
)
