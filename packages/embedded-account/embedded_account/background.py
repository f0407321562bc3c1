"""Create the resources that AWS services create on their own: network interfaces, security groups and log groups.

They are real resources of the account (DescribeNetworkInterfaces returns them), with a record of the resource that
created each. As on AWS, deleting a subnet, security group or VPC that one of them uses is refused.
"""

import ipaddress
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from socket import inet_aton
from typing import Any

from moto.ec2.exceptions import EC2ClientError, InvalidSecurityGroupNotFoundError
from moto.ec2.models import ec2_backends
from moto.ec2.models.security_groups import SecurityGroup
from moto.logs.models import logs_backends

from embedded_account.journal import Journal

RESERVED_ADDRESSES_AT_START = 4
"""How many addresses AWS reserves at the start of a subnet.

They are the network address and the next three. AWS also reserves the last one, the broadcast address.
"""


@dataclass(frozen=True)
class Made:
    """One resource that a service created on its own.

    `kind` is "network-interface", "security-group", "log-group" or a service's own word. `identifier` is the resource's
    id (for a log group, its name). `reason` is AWS's description of it. `holds` are the ids of the resources that
    cannot be deleted before it.
    """

    kind: str
    identifier: str
    maker_arn: str
    reason: str
    holds: frozenset[str] = frozenset()


class Background:
    """The record of what services created on their own, and the methods that create it. Thread-safe."""

    def __init__(self, account_id: str, region: str, journal: Journal) -> None:
        self._account_id = account_id
        self._region = region
        self.journal = journal
        self._lock = threading.RLock()
        self._made: dict[tuple[str, str], Made] = {}

    @property
    def _ec2(self) -> Any:
        return ec2_backends[self._account_id][self._region]

    @property
    def _logs(self) -> Any:
        return logs_backends[self._account_id][self._region]

    def make(self, kind: str, identifier: str, maker_arn: str, reason: str, holds: Iterable[str] = ()) -> Made:
        """Record a resource that the caller created; return the record. The methods below create the usual kinds."""
        made = Made(kind, identifier, maker_arn, reason, frozenset(holds))
        with self._lock:
            self._made[kind, identifier] = made
        self.journal.record("eni", action="make", resource=kind, id=identifier, maker=maker_arn, reason=reason)
        return made

    def network_interface(
        self,
        *,
        maker_arn: str,
        description: str,
        subnet_id: str,
        security_group_ids: Sequence[str],
        addresses: int = 1,
        interface_type: str = "interface",
        requester_id: str = "amazon-aws",
        tags: Mapping[str, str] | None = None,
    ) -> Any:
        """Create a requester-managed network interface with `addresses` private IPv4 addresses.

        Returns moto's NetworkInterface (`.id`, `.private_ip_address`, `.mac_address`). Without security groups it uses
        the VPC's default group. Raises EC2's own errors for an unknown subnet or group, for a group of another VPC, and
        for a subnet with too few free addresses.
        """
        with self._lock:
            subnet = self._ec2.get_subnet(subnet_id)
            for group_id in security_group_ids:
                self._check_group(group_id, subnet.vpc_id)
            first, *others = free_addresses(self._ec2, subnet, addresses)
            interface = self._ec2.create_network_interface(
                subnet,
                first,
                private_ip_addresses=[
                    {"Primary": True, "PrivateIpAddress": first},
                    *({"Primary": False, "PrivateIpAddress": address} for address in others),
                ],
                group_ids=list(security_group_ids),
                description=description,
                tags=dict(tags or {}),
            )
            interface.requester_id = requester_id
            self.adopt_interface(interface, maker_arn, interface_type=interface_type)
        return interface

    def adopt_interface(self, interface: Any, maker_arn: str, *, interface_type: str = "interface") -> None:
        """Mark an existing moto NetworkInterface as in use and managed by its creator."""
        interface.requester_managed = True
        interface.interface_type = interface_type
        interface.status = "in-use"
        groups = [group.id for group in interface.group_set]
        holds = [interface.subnet.id, *groups]
        self.make("network-interface", interface.id, maker_arn, interface.description, holds)

    def security_group(
        self,
        *,
        maker_arn: str,
        name: str,
        description: str,
        vpc_id: str,
        tags: Mapping[str, str],
        group_id: str | None = None,
    ) -> Any:
        """Create a security group with EC2's default egress rule; return moto's SecurityGroup (`.id`)."""
        if group_id:
            group = SecurityGroup(self._ec2, group_id, name, description, vpc_id=vpc_id, tags=dict(tags))
            self._ec2.groups[vpc_id][group_id] = group
        else:
            group = self._ec2.create_security_group(name, description, vpc_id=vpc_id, tags=dict(tags))
        self.make("security-group", group.id, maker_arn, description, [vpc_id])
        return group

    def log_group(self, *, maker_arn: str, name: str) -> None:
        """Create a log group unless it exists.

        As on AWS, it stays when its creator is deleted. A log group that a template declares is kept as it is.
        """
        with self._lock:
            if name not in self._logs.groups:
                self._logs.create_log_group(name, {})
                self.make("log-group", name, maker_arn, "created at the first log line")

    def drop(self, identifier: str) -> None:
        """Delete what was created under this id, whatever its kind. Do nothing if it is already gone."""
        with self._lock:
            for made in [made for made in self._made.values() if made.identifier == identifier]:
                self._delete(made)
                del self._made[made.kind, made.identifier]
                self.journal.record("eni", action="drop", resource=made.kind, id=identifier, maker=made.maker_arn)

    def drop_all(self, maker_arn: str) -> None:
        """Delete all network interfaces and security groups of this creator. Log groups stay, as on AWS."""
        in_order = sorted(self.made_by(maker_arn), key=lambda made: made.kind == "security-group")
        for made in in_order:
            if made.kind != "log-group":
                self.drop(made.identifier)

    def all(self) -> list[Made]:
        """Return all recorded resources that still exist."""
        with self._lock:
            return [made for made in self._made.values() if self._exists(made)]

    def made_by(self, maker_arn: str) -> list[Made]:
        """Return the existing resources that this creator created."""
        return [made for made in self.all() if made.maker_arn == maker_arn]

    def maker_of(self, kind: str, identifier: str) -> Made | None:
        """Return the record of one resource, or None if no service created it."""
        with self._lock:
            return self._made.get((kind, identifier))

    def holders(self, identifier: str) -> list[Made]:
        """Return the resources that keep the resource with this id from being deleted."""
        return [made for made in self.all() if identifier in made.holds]

    def _check_group(self, group_id: str, vpc_id: str) -> None:
        group = self._ec2.get_security_group_from_id(group_id)
        if group is None:
            raise InvalidSecurityGroupNotFoundError(group_id)
        if group.vpc_id != vpc_id:
            raise EC2ClientError(
                "InvalidParameter", "You have specified two resources that belong to different networks."
            )

    def _exists(self, made: Made) -> bool:
        """Return whether the resource still exists: any caller can delete log groups."""
        if made.kind == "log-group":
            return made.identifier in self._logs.groups
        if made.kind == "network-interface":
            return made.identifier in self._ec2.enis
        if made.kind == "security-group":
            return self._ec2.get_security_group_from_id(made.identifier) is not None
        return True

    def _delete(self, made: Made) -> None:
        if not self._exists(made):
            return
        if made.kind == "log-group":
            self._logs.delete_log_group(made.identifier)
        elif made.kind == "network-interface":
            interface = self._ec2.get_network_interface(made.identifier)
            interface.requester_managed = False
            interface.status = "available"
            self._ec2.delete_network_interface(made.identifier)
        elif made.kind == "security-group":
            self._ec2.delete_security_group(group_id=made.identifier)


def free_addresses(ec2: Any, subnet: Any, count: int) -> list[str]:
    """Return the lowest `count` free IPv4 addresses of moto's subnet. Raises EC2's error if there are fewer."""
    # Numbers, because a node of a large type takes dozens of addresses, and texts of thousands take seconds to make.
    taken = {
        int.from_bytes(inet_aton(address["PrivateIpAddress"]))
        for interface in ec2.enis.values()
        if interface.subnet.id == subnet.id
        for address in interface.private_ip_addresses
    }
    network = ipaddress.IPv4Network(subnet.cidr_block)
    usable = range(int(network[RESERVED_ADDRESSES_AT_START]), int(network.broadcast_address))
    free = (number for number in usable if number not in taken)
    found = [str(ipaddress.IPv4Address(number)) for number in islice(free, count)]
    if len(found) < count:
        raise EC2ClientError(
            "InsufficientFreeAddressesInSubnet",
            f"The specified subnet does not have enough free addresses to satisfy the request. ({subnet.id})",
        )
    return found
