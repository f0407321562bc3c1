"""Estimate how many addresses of each node subnet an environment uses."""

from collections import defaultdict
from ipaddress import IPv4Network
from math import ceil
from typing import Final, NamedTuple

from config.model import Environment

# AWS reserves five addresses of each subnet.
RESERVED: Final = 5
# An EC2 node of the system group: two of its network interfaces with 15 addresses each, as the VPC CNI keeps one
# interface in reserve (an m5.xlarge has at most four).
SYSTEM_NODE: Final = 30
# File system, Lambda functions, and in a closed network an interface endpoint for each of AWS's APIs.
SERVICES: Final = 32


class SubnetUse(NamedTuple):
    """A zone's node subnet: how many addresses are usable, and how many nodes, file system and endpoints use."""

    zone: str
    block: IPv4Network
    free: int
    used: int


def subnet_uses(environment: Environment) -> list[SubnetUse]:
    """Return the use of each node subnet, in the order of the zones. All groups' types must be known.

    Nodes of Slurm, which have no pods, use fewer addresses than the catalogue says: an upper bound.
    """
    network = environment.network
    used: dict[str, int] = defaultdict(int)
    for group in environment.hyperpod.instance_groups:
        used[group.zone or network.node_zones[0]] += group.count * group.type.ips_per_node
    # The node group spreads over all node subnets.
    system = environment.system_nodes.count if environment.system_nodes else 0
    for_all = ceil(system / len(network.node_zones)) * SYSTEM_NODE + SERVICES
    return [
        SubnetUse(zone, block, max(0, block.num_addresses - RESERVED), used[zone] + for_all)
        for zone, block in ((zone, network.node_subnet(n)) for n, zone in enumerate(network.node_zones))
    ]
