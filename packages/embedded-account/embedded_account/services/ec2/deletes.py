"""Delete EC2 resources with AWS's checks: a resource that is in use is not deleted.

Each function replaces the method of the same name in moto's EC2 backend; its docstring names the behaviour of moto
that it corrects. AWS's error codes: "Error codes for the Amazon EC2 API" in EC2's documentation.
"""

import ipaddress
from typing import Any

from moto.ec2.exceptions import DependencyViolationError, EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_ip_addresses import ElasticAddressBackend
from moto.ec2.models.elastic_network_interfaces import NetworkInterfaceBackend
from moto.ec2.models.internet_gateways import InternetGatewayBackend
from moto.ec2.models.security_groups import SecurityGroupBackend
from moto.ec2.models.subnets import SubnetBackend
from moto.ec2.models.vpcs import VPCBackend


def install() -> None:
    """Replace the methods of moto's EC2 backend."""
    for function in _REPLACEMENTS:
        setattr(EC2Backend, function.__name__, function)


def in_use(kind: str, identifier: str) -> DependencyViolationError:
    """Return EC2's error for deleting a resource that other resources use."""
    return DependencyViolationError(f"The {kind} '{identifier}' has dependencies and cannot be deleted.")


def delete_vpc(ec2: Any, vpc_id: str) -> Any:
    """Correct moto, which checks only subnets and route tables, and does not delete the VPC's network ACLs."""
    vpc = ec2.get_vpc(vpc_id)
    acls = [acl for acl in ec2.network_acls.values() if acl.vpc_id == vpc_id]
    dependents = [
        *ec2.describe_subnets(filters={"vpc-id": [vpc_id]}),
        *(group for group in ec2.groups[vpc_id].values() if not group.is_default),
        *(gateway for gateway in ec2.internet_gateways.values() if gateway.vpc is vpc),
        *(endpoint for endpoint in ec2.vpc_end_points.values() if endpoint.vpc_id == vpc_id),
        *(interface for interface in ec2.enis.values() if interface.vpc_id == vpc_id),
        *(acl for acl in acls if not acl.default),
        *(table for table in ec2.route_tables.values() if table.vpc_id == vpc_id and table.main_association_id is None),
    ]
    if dependents:
        raise in_use("vpc", vpc_id)
    for group_id in list(ec2.groups[vpc_id]):
        ec2._delete_security_group(vpc_id, group_id)
    for acl in acls:
        ec2.network_acls.pop(acl.id)
    return VPCBackend.delete_vpc(ec2, vpc_id)


def disassociate_vpc_cidr_block(ec2: Any, association_id: str) -> dict[str, Any]:
    """Correct moto, which removes a CIDR block that has subnets.

    AWS does not document the text of its error.
    """
    for vpc in ec2.vpcs.values():
        association = vpc._cidr_block_association_set.get(association_id)
        if association is None or ":" in association["cidr_block"]:
            continue
        block = ipaddress.IPv4Network(association["cidr_block"])
        subnets = ec2.describe_subnets(filters={"vpc-id": [vpc.id]})
        if any(subnet.cidr.subnet_of(block) for subnet in subnets):
            raise EC2ClientError(
                "InvalidCidrBlock.InUse",
                f"The vpc CIDR block with association ID {association_id} may not be disassociated, because "
                "it has subnets.",
            )
    response: dict[str, Any] = VPCBackend.disassociate_vpc_cidr_block(ec2, association_id)
    return response


def delete_subnet(ec2: Any, subnet_id: str) -> Any:
    """Correct moto, which deletes a subnet that has network interfaces and keeps the subnet's associations."""
    ec2.get_subnet(subnet_id)
    if any(interface.subnet.id == subnet_id for interface in ec2.enis.values()):
        raise in_use("subnet", subnet_id)
    for table in ec2.route_tables.values():
        for association, subnet in list(table._associations.items()):
            if subnet == subnet_id:
                del table._associations[association]
    for acl in ec2.network_acls.values():
        for association, each in list(acl._associations.items()):
            if each.subnet_id == subnet_id:
                del acl._associations[association]
    return SubnetBackend.delete_subnet(ec2, subnet_id)


def delete_security_group(ec2: Any, name: str | None = None, group_id: str | None = None) -> None:
    """Correct moto, which deletes default groups and groups that interfaces or other groups' rules use."""
    group = ec2.get_security_group_by_name_or_id(group_id or name)
    if group is not None:
        if group.is_default:
            raise EC2ClientError(
                "CannotDelete", f'the specified group: "{group.id}" name: "default" cannot be deleted by a user'
            )
        held = any(group.id in [each.id for each in interface.group_set] for interface in ec2.enis.values())
        if held or _is_referenced(ec2, group.id):
            raise DependencyViolationError(f"resource {group.id} has a dependent object")
    SecurityGroupBackend.delete_security_group(ec2, name, group_id)


def _is_referenced(ec2: Any, group_id: str) -> bool:
    return any(
        rule.source_group.get("GroupId") == group_id
        for groups in ec2.groups.values()
        for other in groups.values()
        if other.id != group_id
        for rule in [*other.ingress_rules, *other.egress_rules]
    )


def delete_network_interface(ec2: Any, eni_id: str) -> None:
    """Correct moto, which deletes interfaces that an instance or a service uses."""
    interface = ec2.get_network_interface(eni_id)
    if interface.status == "in-use" or interface.requester_managed:
        raise EC2ClientError("InvalidParameterValue", f"Network interface '{eni_id}' is currently in use.")
    NetworkInterfaceBackend.delete_network_interface(ec2, eni_id)


def delete_internet_gateway(ec2: Any, internet_gateway_id: str) -> None:
    """Correct moto, whose error differs from AWS's."""
    if ec2.get_internet_gateway(internet_gateway_id).vpc:
        raise in_use("internetGateway", internet_gateway_id)
    InternetGatewayBackend.delete_internet_gateway(ec2, internet_gateway_id)


def detach_internet_gateway(ec2: Any, internet_gateway_id: str, vpc_id: str) -> None:
    """Correct moto, which detaches a gateway although the VPC has public addresses in use."""
    if any(interface.public_ip and interface.vpc_id == vpc_id for interface in ec2.enis.values()):
        raise DependencyViolationError(
            f"Network {vpc_id} has some mapped public address(es). Please unmap those public address(es) before "
            "detaching the gateway."
        )
    InternetGatewayBackend.detach_internet_gateway(ec2, internet_gateway_id, vpc_id)


def release_address(ec2: Any, address: str | None = None, allocation_id: str | None = None) -> None:
    """Correct moto, which releases addresses that are in use.

    For the address of a NAT gateway, AWS reports only a missing permission.
    """
    found = ec2.address_by_ip([address]) if address else ec2.address_by_allocation([allocation_id])
    interface = found[0].eni
    if interface is not None and interface.requester_managed:
        raise EC2ClientError("AuthFailure", "You do not have permission to access the specified resource.")
    if interface is not None:
        raise EC2ClientError("InvalidIPAddress.InUse", f"Address {found[0].public_ip} is in use.")
    ElasticAddressBackend.release_address(ec2, address, allocation_id)


_REPLACEMENTS = (
    delete_vpc,
    disassociate_vpc_cidr_block,
    delete_subnet,
    delete_security_group,
    delete_network_interface,
    delete_internet_gateway,
    detach_internet_gateway,
    release_address,
)
