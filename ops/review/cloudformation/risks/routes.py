"""Find new ways between networks: routes, network ACLs, endpoints of other people's services."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ops.review.cloudformation.risks.network import network_covers
from ops.review.cloudformation.sides import Key, ResolvedTemplates, Risk, TemplateComparison, referred, renamed
from ops.review.cloudformation.values import mapping, readable, same, short, text
from ops.review.model import Danger

_ENTRY: Final = "AWS::EC2::NetworkAclEntry"
_ENDPOINT: Final = "AWS::EC2::VPCEndpoint"
_OF_ROUTES: Final = (
    *("AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::RouteTable"),
    "AWS::EC2::SubnetRouteTableAssociation",
)
_INTERNET: Final = "an internet gateway"
_ALL_PROTOCOLS: Final = "-1"
_SERVICE_OF_AWS: Final = re.compile(r"(com\.amazonaws|cn\.com\.amazonaws\.\S+|aws)\.(?!vpce\.)\S+")


@dataclass(frozen=True)
class Way:
    """Where a route leads."""

    destination: str
    target: str
    """A kind of gateway, or the exact thing that is none."""


def new_ways(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield ways that existing subnets, network ACLs and networks did not have."""
    if sides.base.assembly is None:
        return
    yield from _routes(sides)
    yield from _network_acls(sides)
    yield from _endpoints(sides)


def same_ways(known: Iterable[Any], added: Iterable[Any], sides: TemplateComparison) -> bool:
    """Return whether subnets have no other routes than those of other subnets; False if nobody can know."""
    ways = _ways(sides.head)
    before = [_owner(each) for each in known]
    if not before or not all(_owner(each) in ways for each in (*before, *added)):
        return False
    old = [way for each in before for way in ways[each]]
    return all(_covered(way, old) for each in added for way in ways[_owner(each)])


def _routes(sides: TemplateComparison) -> Iterator[Risk]:
    if not sides.touch(*_OF_ROUTES):
        return
    before = {str(renamed(owner, sides.renames)): ways for owner, ways in _ways(sides.base).items()}
    for owner, ways in _ways(sides.head).items():
        keys = referred(owner)
        if keys and not any(sides.existed(each) for each in keys):
            continue
        old = [Way(way.destination, str(renamed(way.target, sides.renames))) for way in before.get(owner, ())]
        for way, key in ways.items():
            if _covered(way, old):
                continue
            what = f"{readable(owner)}: + route to {short(way.target)} for {short(way.destination)}"
            if way.target == _INTERNET:
                yield Risk(key, Danger.PUBLIC_ENDPOINT, what, "The subnet becomes a public one.")
            else:
                yield Risk(key, Danger.OPENED_PORT, what, "The subnet reaches more, or by another way.")


def _ways(side: ResolvedTemplates) -> Mapping[str, Mapping[Way, Key]]:
    """Return the routes of each subnet, and of each route table that no template holds."""
    tables: dict[str, dict[Way, Key]] = defaultdict(dict)
    for key, _ in side.of_type("AWS::EC2::RouteTable"):
        tables[_owner(f"${{{key[0]}.{key[1]}.Ref}}")] = {}
    own = set(tables)
    for key, route in side.of_type("AWS::EC2::Route"):
        if way := _way(route, side):
            tables[_owner(route.get("RouteTableId"))][way] = key
    found: dict[str, Mapping[Way, Key]] = {table: ways for table, ways in tables.items() if table not in own}
    for _, association in side.of_type("AWS::EC2::SubnetRouteTableAssociation"):
        found[_owner(association.get("SubnetId"))] = tables[_owner(association.get("RouteTableId"))]
    return found


def _owner(value: object) -> str:
    """Return a name for a resource that does not depend on the attribute that refers to it."""
    keys = sorted(referred(value))
    return f"${{{keys[0][0]}.{keys[0][1]}.Ref}}" if keys else text(value)


def _way(route: Mapping[str, Any], side: ResolvedTemplates) -> Way | None:
    places = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")
    destination = next((str(route[name]) for name in places if name in route), "")
    targets = {name: value for name, value in route.items() if name not in (*places, "RouteTableId")}
    name, value = next(iter(targets.items()), ("", ""))
    target = f"{name} {value}"
    if name == "GatewayId" and value == "local":
        return None
    if name == "GatewayId" and (side.type_of(value) == "AWS::EC2::InternetGateway" or str(value).startswith("igw-")):
        target = _INTERNET
    elif name == "NatGatewayId":
        target = "a NAT gateway"
    return Way(destination, target)


def _covered(way: Way, by: Iterable[Way]) -> bool:
    return any(
        way.target == each.target
        and (way.destination == each.destination or network_covers(each.destination, way.destination))
        for each in by
    )


def _network_acls(sides: TemplateComparison) -> Iterator[Risk]:
    old, new = (
        {text(entry): (key, entry) for key, each in side.of_type(_ENTRY) for entry in [renamed(each, renames)]}
        for side, renames in ((sides.base, sides.renames), (sides.head, {}))
    )
    for entry, (key, each) in new.items():
        acl = referred(each.get("NetworkAclId"))
        existing = not acl or any(sides.existed(one) for one in acl)
        narrows = any(_includes(wide, each) for _, wide in old.values())
        if entry not in old and each.get("RuleAction") != "deny" and existing and not narrows:
            yield Risk(key, Danger.OPENED_PORT, f"+ allow {_range(each)}", "The network ACL lets more through.")
    for entry, (key, each) in old.items():
        if entry not in new and each.get("RuleAction") != "allow":
            yield Risk(key, Danger.OPENED_PORT, f"- deny {_range(each)}", "The network ACL lets more through.")
    for key, before in sides.base.of_type("AWS::EC2::SubnetNetworkAclAssociation"):
        after = sides.head.properties.get(key, {})
        if not same(renamed(before, sides.renames), after):
            what = f"NetworkAclId {short(before.get('NetworkAclId'))} → {short(after.get('NetworkAclId'))}"
            yield Risk(key, Danger.OPENED_PORT, what, "Another network ACL filters the subnet, or none.")


def _range(entry: Mapping[str, Any]) -> str:
    return short(entry.get("CidrBlock", entry.get("Ipv6CidrBlock")))


def _includes(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Return whether an entry allows all that another one in its place allows."""
    fixed = ("NetworkAclId", "RuleNumber", "RuleAction", "Egress", "Icmp")
    if not same([wide.get(name) for name in fixed], [narrow.get(name) for name in fixed]):
        return False
    every = str(wide.get("Protocol")) == _ALL_PROTOCOLS
    ports = every or (same(wide.get("Protocol"), narrow.get("Protocol")) and _ports_include(wide, narrow))
    one, other = (str(each.get("CidrBlock", each.get("Ipv6CidrBlock"))) for each in (wide, narrow))
    return ports and (one == other or network_covers(one, other))


def _ports_include(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    one, other = mapping(wide.get("PortRange")), mapping(narrow.get("PortRange"))
    numbers = [str(each) for each in (one.get("From"), other.get("From"), other.get("To"), one.get("To"))]
    if not all(each.isdigit() for each in numbers):
        return same(wide.get("PortRange"), narrow.get("PortRange"))
    low, first, last, high = map(int, numbers)
    return low <= first <= last <= high


def _endpoints(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield endpoints of services that are not AWS's own."""
    for each in sides.differing(_ENDPOINT):
        after = each.after
        service = after.get("ServiceName", after.get("ResourceConfigurationArn", after.get("ServiceNetworkArn")))
        known = same(each.before.get("ServiceName"), service) and not each.new
        if not known and not _SERVICE_OF_AWS.fullmatch(str(service)):
            yield Risk(each.key, Danger.OPENED_PORT, f"to {short(service)}", "It leads to somebody else's service.")
