"""Regions and their zones, read from the dated table `regions.yaml`, which users may extend."""

from functools import cache
from pathlib import Path
from typing import Final

from config.facts.tables import read_table

REGIONS_FILE: Final = Path(__file__).with_name("regions.yaml")


@cache
def regions() -> dict[str, tuple[str, ...]]:
    """Map the codes of the known regions to the ids of their zones."""
    return {code: tuple(zones) for code, zones in read_table(REGIONS_FILE)["regions"].items()}


@cache
def regions_with(service: str) -> frozenset[str]:
    """Return the regions of the commercial partition that the table lists for a service, such as `grafana`."""
    return frozenset(read_table(REGIONS_FILE)[service])


def table_date() -> str:
    """Return the day on which the table was compared with its sources."""
    date: str = read_table(REGIONS_FILE)["date"]
    return date
