"""Read the table of network bandwidths, `network_gbps.yaml`."""

from functools import cache
from pathlib import Path
from typing import Final

from config.facts.tables import read_table

FILE: Final = Path(__file__).with_name("network_gbps.yaml")


@cache
def _table() -> dict[str, float]:
    return read_table(FILE)


def network_gbps(instance_type: str) -> float | None:
    """Return the nominal bandwidth of a node in Gbit/s, or None for a type that is not in the table."""
    return _table().get(instance_type)
