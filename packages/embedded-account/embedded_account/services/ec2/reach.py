"""Whether something in a subnet reaches an AWS service: by an endpoint of the VPC, or past it by a NAT gateway.

Simulated: packets do not flow. Routes, endpoints and their security groups are read when a call is made or a node
starts; network ACLs, endpoint policies and a caller's own egress rules are not.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

NODE_SERVICES: Final = ("ec2", "ecr.api", "ecr.dkr", "s3")
"""What every EKS node calls before it is Ready (EKS user guide, private clusters)."""

_TLS: Final = 443
_ANYWHERE: Final = "0.0.0.0/0"


@dataclass(frozen=True)
class Place:
    """Where a caller is: its subnet, and the security groups of its interface."""

    subnet_id: str
    security_groups: tuple[str, ...]


def unreachable(ec2: Any, place: Place, services: Iterable[str]) -> str:
    """Return why the first of `services` that `place` does not reach is out of its reach; "" when it reaches all.

    `ec2` is moto's backend. A service is named as in `com.amazonaws.<region>.<service>`.
    """
    return next((why for service in services if (why := _why(ec2, place, service))), "")


def _why(ec2: Any, place: Place, service: str) -> str:
    subnet = ec2.get_subnet(place.subnet_id)
    wanted = (subnet.vpc_id, f"com.amazonaws.{ec2.region_name}.{service}")
    endpoints = [each for each in ec2.vpc_end_points.values() if (each.vpc_id, each.service_name) == wanted]
    # With private DNS the service's own name leads to the endpoint, also where a NAT gateway would do.
    for endpoint in (each for each in endpoints if each.private_dns_enabled):
        if _lets_in(ec2, endpoint, place, subnet):
            return ""
        groups = ", ".join(endpoint.security_group_ids)
        return f"subnet {subnet.id} has no route to {service}: security groups {groups} of {endpoint.id} refuse its TLS"
    table = _route_table(ec2, subnet)
    if any(table.id in endpoint.route_table_ids for endpoint in endpoints):
        return ""
    if any(route.destination_cidr_block == _ANYWHERE and route.nat_gateway for route in table.routes):
        return ""
    return f"subnet {subnet.id} has no route to {service}: neither an endpoint of its VPC nor a NAT gateway"


def _route_table(ec2: Any, subnet: Any) -> Any:
    """The subnet's own route table, else its VPC's main one."""
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == subnet.vpc_id]
    own = [table for table in tables if subnet.id in table._associations.values()]
    return own[0] if own else next(table for table in tables if table.main_association_id)


def _lets_in(ec2: Any, endpoint: Any, place: Place, subnet: Any) -> bool:
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
