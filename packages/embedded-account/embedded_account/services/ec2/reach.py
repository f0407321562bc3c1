"""Decide whether a caller in a subnet reaches an AWS service through a VPC endpoint or a NAT gateway.

Simulated: no packets flow. The check reads routes, endpoints and the endpoints' security groups when a call is made or
a node starts. It ignores network ACLs, endpoint policies and the caller's own egress rules.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

NODE_SERVICES: Final = ("ec2", "ecr.api", "ecr.dkr", "s3")
"""The services that every EKS node calls before it is Ready (EKS user guide, private clusters)."""

_TLS: Final = 443
_ANYWHERE: Final = "0.0.0.0/0"


@dataclass(frozen=True)
class NetworkLocation:
    """The network location of a caller: its subnet, and the security groups of its interface."""

    subnet_id: str
    security_groups: tuple[str, ...]


def unreachable(ec2: Any, place: NetworkLocation, services: Iterable[str]) -> str:
    """Return why `place` cannot reach the first unreachable one of `services`, or "" if it reaches all.

    `ec2` is moto's backend. A service has the name that it has in `com.amazonaws.<region>.<service>`.
    """
    return next((why for service in services if (why := _why(ec2, place, service))), "")


def _why(ec2: Any, place: NetworkLocation, service: str) -> str:
    subnet = ec2.get_subnet(place.subnet_id)
    wanted = (subnet.vpc_id, f"com.amazonaws.{ec2.region_name}.{service}")
    endpoints = [each for each in ec2.vpc_end_points.values() if (each.vpc_id, each.service_name) == wanted]
    # With private DNS the service's name resolves to the endpoint, even if a NAT gateway could reach the service.
    for endpoint in (each for each in endpoints if each.private_dns_enabled):
        if _lets_in(ec2, endpoint, place, subnet):
            return ""
        groups = ", ".join(endpoint.security_group_ids)
        return (
            f"subnet {subnet.id} has no route to {service}: security groups {groups} of {endpoint.id} refuse the "
            "subnet's TLS connections"
        )
    table = _route_table(ec2, subnet)
    if any(table.id in endpoint.route_table_ids for endpoint in endpoints):
        return ""
    if any(route.destination_cidr_block == _ANYWHERE and route.nat_gateway for route in table.routes):
        return ""
    return f"subnet {subnet.id} has no route to {service}: neither a VPC endpoint nor a NAT gateway leads to it"


def _route_table(ec2: Any, subnet: Any) -> Any:
    """Return the subnet's own route table, or else the main route table of its VPC."""
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == subnet.vpc_id]
    own = [table for table in tables if subnet.id in table._associations.values()]
    return own[0] if own else next(table for table in tables if table.main_association_id)


def _lets_in(ec2: Any, endpoint: Any, place: NetworkLocation, subnet: Any) -> bool:
    callers = ipaddress.IPv4Network(subnet.cidr_block)
    rules = [
        rule for group in endpoint.security_group_ids for rule in ec2.get_security_group_from_id(group).ingress_rules
    ]
    return any(_covers_tls(rule) and _admits(rule, callers, place.security_groups) for rule in rules)


def _covers_tls(rule: Any) -> bool:
    return rule.ip_protocol == "-1" or (rule.ip_protocol == "tcp" and _TLS in range(rule.from_port, rule.to_port + 1))


def _admits(rule: Any, callers: ipaddress.IPv4Network, groups: tuple[str, ...]) -> bool:
    if cidr := rule.ip_range.get("CidrIp"):
        return callers.subnet_of(ipaddress.IPv4Network(cidr))
    return rule.source_group.get("GroupId") in groups
