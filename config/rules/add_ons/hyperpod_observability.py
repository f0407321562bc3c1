"""The rule about a workspace of Amazon Managed Grafana."""

from collections.abc import Iterator
from typing import Final

from config.facts.regions import regions_with, table_date
from config.model import EksEnvironment
from config.rules.network import OTHER_PARTITIONS
from config.rules.parts import are_the_whole_world, is_reserved, same_names
from config.rules.rule import Violation, error

_KEY: Final = "observability.hyperpod.grafana"
_CLIENTS: Final = "public blocks of your office or VPN, each once"


@error("V102")
def grafana_can_be_reached(environment: EksEnvironment) -> Iterator[Violation]:
    """Require a region with Amazon Managed Grafana, and public networks of the people who use it.

    Why: other regions have no such workspaces. A workspace sees people's public addresses and admits the listed ones.
    Source: AWS General Reference, grafana endpoints; Amazon Managed Grafana user guide, AMG-configure-nac.
    Example: observability: {hyperpod: {grafana: {public_access_cidrs: [10.8.0.0/16]}}}
    """
    wanted, known = environment.managed_grafana, regions_with("grafana")
    if wanted is None:
        return
    if environment.region not in known and not environment.region.startswith(OTHER_PARTITIONS):
        reason = f"Amazon Managed Grafana is not in {environment.region} as of {table_date()}"
        fix = "remove the key, or add a newer region in config/facts/regions.yaml"
        yield Violation(_KEY, reason, f"the key in {', '.join(sorted(known))}", fix)
    blocks, key = wanted.public_access_cidrs, f"{_KEY}.public_access_cidrs"
    yield from same_names(key, map(str, blocks), key="")
    if are_the_whole_world(blocks):
        reason, fix = "it contains all addresses of the internet", "list your public address, such as [203.0.113.7/32]"
        yield Violation(key, reason, _CLIENTS, fix)
        return
    for n, block in enumerate(blocks):
        if is_reserved(block):
            reason = "it contains private or reserved addresses, which a workspace never sees"
            yield Violation(f"{key}.{n}", reason, _CLIENTS, "write the public address of your VPN's exit")
