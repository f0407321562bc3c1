"""Rules of the VPC, its zones and subnets."""

from collections.abc import Iterator

from config.model import Environment
from config.rules.rule import error


@error("V23")
def two_zones_for_eks(environment: Environment) -> Iterator[tuple[str, str]]:
    """EKS needs subnets in two zones; the /16 of a new VPC has room for three (docs: EKS network requirements)."""
    network = environment.network
    if network.existing is None:
        if not 2 <= len(network.zones) <= 3:
            yield "network.zones", f"{list(network.zones)}; allowed: two or three zone ids"
        if len(set(network.zones)) != len(network.zones):
            yield "network.zones", f"{list(network.zones)} must differ"


@error("V24")
def vpc_block(environment: Environment) -> Iterator[tuple[str, str]]:
    """A zone's nodes take a /18 of the new VPC's block."""
    block = environment.network.vpc_cidr
    if block.prefixlen != 16:
        yield "network.vpc_cidr", f"{block}; allowed: a /16, of which each zone takes a /18 for its nodes"
