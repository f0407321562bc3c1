"""Find opened ports and public endpoints."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ops.review.cloudformation.sides import Key, ResolvedTemplates, Risk, TemplateComparison, referred, renamed
from ops.review.cloudformation.values import elements, is_off, is_on, leaves, listed, mapping, same, short, text
from ops.review.model import Danger

_GROUP: Final = "AWS::EC2::SecurityGroup"
_INLINE: Final = {"SecurityGroupIngress": "in", "SecurityGroupEgress": "out"}
_SEPARATE: Final = {"AWS::EC2::SecurityGroupIngress": "in", "AWS::EC2::SecurityGroupEgress": "out"}
_PEERS: Final = (
    "CidrIp",
    "CidrIpv6",
    "SourceSecurityGroupId",
    "SourceSecurityGroupName",
    "SourcePrefixListId",
    "DestinationSecurityGroupId",
    "DestinationPrefixListId",
)
_PROTOCOLS: Final = {"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}
_EVERYWHERE: Final = ("0.0.0.0/0", "::/0")
# By their mere creation something is reachable from outside, or the network is joined to another.
_REACHABLE: Final = re.compile(
    r"AWS::(ElasticLoadBalancing\w*::LoadBalancer|ApiGateway\w*::\w+|CloudFront::\w+|Lambda::Url|AppRunner::\w+"
    r"|GlobalAccelerator::\w+|EC2::(VPCPeeringConnection|TransitGateway\w*|VPN\w*|ClientVpn\w*|VPCEndpointService\w*"
    r"|Instance|EIPAssociation)|Lightsail::\w+|AppSync::\w+|Transfer::\w+)"
)
# What describes a thing, and lets nobody in.
_DESCRIBING: Final = frozenset({"Tags", "Description", "Name"})
_CLOSED: Final = (
    "None",
    "Private",
    "LogDeliveryWrite",
    "AwsExecRead",
    "BucketOwnerRead",
    "BucketOwnerFullControl",
)


@dataclass(frozen=True)
class Traffic:
    """What one rule of a security group lets in or out."""

    direction: str
    group: str
    protocol: str
    first: str
    last: str
    peer: str

    def words(self) -> str:
        """Return it as `TCP 443 from 10.0.0.0/8`."""
        protocol = "all traffic" if self.protocol == "-1" else self.protocol.upper()
        ports = "" if self.protocol == "-1" or not self.first else f" {self.first}"
        ports += f"-{self.last}" if ports and self.last != self.first else ""
        return f"{protocol}{ports} {'from' if self.direction == 'in' else 'to'} {short(self.peer)}"


def traffic(side: ResolvedTemplates) -> dict[Traffic, Key]:
    """Return what all security groups let through, with the resource that contains the rule."""
    found: dict[Traffic, Key] = {}
    for key, properties in side.of_type(_GROUP):
        group = f"${{{key[0]}.{key[1]}.GroupId}}"
        for name, direction in _INLINE.items():
            for rule in elements(properties.get(name)):
                found[_rule(direction, group, rule)] = key
    for key, properties in side.of_type(*_SEPARATE):
        direction = _SEPARATE[str(side.resources[key]["Type"])]
        group = str(properties.get("GroupId", properties.get("GroupName"))).replace(".Ref}", ".GroupId}")
        found[_rule(direction, group, properties)] = key
    return found


def _rule(direction: str, group: str, rule: object) -> Traffic:
    if not isinstance(rule, Mapping):
        return Traffic(direction, group, "-1", "", "", f"unknown: {text(rule)}")
    protocol = str(rule.get("IpProtocol", "-1")).lower()
    peers = [str(rule[name]).replace(".Ref}", ".GroupId}") for name in _PEERS if name in rule]
    first, last = ("" if rule.get(name) is None else str(rule[name]) for name in ("FromPort", "ToPort"))
    peer = ", ".join(peers) or "an unknown peer"
    return Traffic(direction, group, _PROTOCOLS.get(protocol, protocol), first, last, peer)


def implicit(side: ResolvedTemplates, other: ResolvedTemplates, found: Mapping[Traffic, Key]) -> dict[Traffic, Key]:
    """Return the rule that EC2 adds to a group without rules for outgoing traffic: everything may leave."""
    explicit = {each.group for each in found if each.direction == "out"}
    rules = {}
    for key, properties in side.of_type(_GROUP):
        group = f"${{{key[0]}.{key[1]}.GroupId}}"
        was_inline = "SecurityGroupEgress" in other.properties.get(key, {})
        if "SecurityGroupEgress" not in properties and (group not in explicit or was_inline):
            rules[Traffic("out", group, "-1", "", "", _EVERYWHERE[0])] = key
    return rules


def opened(sides: TemplateComparison) -> Iterator[tuple[Traffic, Key, bool]]:
    """Yield what is let through and was not, with the rule's resource, and whether the group is new."""
    if not sides.touch(_GROUP, *_SEPARATE):
        return
    before = traffic(sides.base)
    before |= implicit(sides.base, ResolvedTemplates(None), before)
    old = [Traffic(**renamed(vars(each), sides.renames)) for each in before]
    after = traffic(sides.head)
    after |= implicit(sides.head, sides.base, after)
    for each, key in after.items():
        if not any(_covers(wide, each) for wide in old):
            groups = referred(each.group)
            yield each, key, bool(groups) and not any(sides.existed(group) for group in groups)


def closed(sides: TemplateComparison) -> Iterator[Traffic]:
    """Yield what was let through and is not any more, by groups that remain."""
    if not sides.touch(_GROUP, *_SEPARATE):
        return
    after = list(traffic(sides.head))
    groups = {f"${{{key[0]}.{key[1]}.GroupId}}" for key in sides.head.resources}
    for each in traffic(sides.base):
        rule = Traffic(**renamed(vars(each), sides.renames))
        if rule.group in groups and not any(_covers(wide, rule) for wide in after):
            yield rule


def _covers(wide: Traffic, narrow: Traffic) -> bool:
    if (wide.direction, wide.group) != (narrow.direction, narrow.group):
        return False
    if wide.protocol != "-1":
        if wide.protocol != narrow.protocol:
            return False
        if (wide.first, wide.last) != (narrow.first, narrow.last) and not _ports_cover(wide, narrow):
            return False
    return wide.peer == narrow.peer or network_covers(wide.peer, narrow.peer)


def _ports_cover(wide: Traffic, narrow: Traffic) -> bool:
    numbers = [wide.first, narrow.first, narrow.last, wide.last]
    if wide.protocol not in ("tcp", "udp") or not all(each.lstrip("-").isdigit() for each in numbers):
        return wide.first == "-1"
    low, first, last, high = map(int, numbers)
    return low <= first <= last <= high


def network_covers(wide: str, narrow: str) -> bool:
    """Return whether an address range includes another one; False if one of them is no range."""
    try:
        one, other = ipaddress.ip_network(wide, strict=False), ipaddress.ip_network(narrow, strict=False)
    except ValueError:
        return False
    if isinstance(one, ipaddress.IPv4Network) and isinstance(other, ipaddress.IPv4Network):
        return other.subnet_of(one)
    if isinstance(one, ipaddress.IPv6Network) and isinstance(other, ipaddress.IPv6Network):
        return other.subnet_of(one)
    return False


def opened_ports(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield what a security group or network ACL lets through and did not."""
    for each, key, new_group in opened(sides):
        if new_group and (each.direction == "out" or not _outside(each.peer)):
            continue
        what = f"{short(each.group)}: + {each.words()}"
        yield Risk(key, Danger.OPENED_PORT, what, f"The security group lets more {each.direction}.")


def _outside(peer: str) -> bool:
    """Return whether a peer may lie outside of the network: an address that nobody can read may."""
    try:
        return any(not ipaddress.ip_network(each, strict=False).is_private for each in peer.split(", "))
    except ValueError:
        return not re.fullmatch(r"\$\{[^}]*\}", peer)


def public_endpoints(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield what becomes reachable from more of the Internet."""
    yield from _eks_endpoints(sides)
    yield from _grafana_workspaces(sides)
    yield from _buckets_and_subnets(sides)
    for each in sides.differing():
        if not _REACHABLE.fullmatch(each.kind) or each.after.get("Scheme") == "internal":
            continue
        differs = [
            f"{'.'.join(path)} {short(new)}" for path, _, new in leaves(_acting(each.before), _acting(each.after))
        ]
        if each.new or differs:
            what = f"{each.kind}{' is new' if each.new else ''}: {listed(differs)}"
            yield Risk(each.key, Danger.PUBLIC_ENDPOINT, what, "It is reachable from outside.")


def _acting(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name not in _DESCRIBING}


def _eks_endpoints(sides: TemplateComparison) -> Iterator[Risk]:
    for cluster in sides.differing("AWS::EKS::Cluster"):
        old, new = (_public_ranges(side) for side in (cluster.before, cluster.after))
        if cluster.new:
            more = [each for each in new if each in _EVERYWHERE]
        else:
            more = [each for each in new if not any(each == one or network_covers(one, each) for one in old)]
        if more:
            before = "" if cluster.new else f", before from {short(', '.join(old)) if old else 'nowhere'}"
            what = f"public access from {short(', '.join(more))}{before}"
            yield Risk(
                cluster.key, Danger.PUBLIC_ENDPOINT, what, "The Kubernetes API is reachable from more addresses."
            )


def _grafana_workspaces(sides: TemplateComparison) -> Iterator[Risk]:
    # Without this property every address reaches the workspace.
    limits = "NetworkAccessControl"
    for each in sides.differing("AWS::Grafana::Workspace"):
        if not each.after.get(limits) and (each.new or each.before.get(limits)):
            what = f"no {limits}"
            yield Risk(each.key, Danger.PUBLIC_ENDPOINT, what, "The workspace is reachable from every address.")


def _public_ranges(cluster: Mapping[str, Any]) -> list[str]:
    """Return the addresses that reach the public endpoint (EKS: on, and from everywhere, unless said otherwise)."""
    config = cluster.get("ResourcesVpcConfig", {})
    if not isinstance(config, Mapping):
        return [f"unknown: {config}"]
    if str(config.get("EndpointPublicAccess", True)).lower() == "false":
        return []
    return [str(each) for each in elements(config.get("PublicAccessCidrs"))] or [_EVERYWHERE[0]]


def _buckets_and_subnets(sides: TemplateComparison) -> Iterator[Risk]:
    for each in sides.differing("AWS::S3::Bucket"):
        old, new = (side.get("PublicAccessBlockConfiguration") for side in (each.before, each.after))
        if off := [
            name
            for name, old_value in _flags(old).items()
            if not is_off(old_value) and not is_on(_flags(new).get(name))
        ]:
            what = f"PublicAccessBlockConfiguration: {', '.join(off)} off"
            yield Risk(each.key, Danger.PUBLIC_ENDPOINT, short(what), "The bucket can be made public.")
        if any(new and not same(old, new) for old, new in zip(_public(each.before), _public(each.after), strict=True)):
            yield Risk(each.key, Danger.PUBLIC_ENDPOINT, "website or public ACL", "The bucket is public.")
    for each in sides.differing("AWS::EC2::Subnet"):
        # Of a new subnet, only a switch whose value nobody knows is dangerous.
        before = each.after if each.new else each.before
        old, new = (side.get("MapPublicIpOnLaunch") for side in (before, each.after))
        if not is_off(new) and not is_on(old):
            what = f"MapPublicIpOnLaunch {short(old)} → {short(new)}"
            yield Risk(each.key, Danger.PUBLIC_ENDPOINT, what, "New interfaces get public IPs.")


def _public(bucket: Mapping[str, Any]) -> tuple[object, object]:
    """Return what makes a bucket public by itself: a website, and an ACL that is open or unknown."""
    acl = bucket.get("AccessControl")
    return bucket.get("WebsiteConfiguration"), None if str(acl) in _CLOSED else acl


def _flags(config: object) -> Mapping[str, Any]:
    """Return switches by name; a configuration that is an expression may switch everything on."""
    names = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    return dict.fromkeys(names, config) if isinstance(config, str) else mapping(config)
