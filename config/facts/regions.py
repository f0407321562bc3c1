"""Regions, their zones and instance types, read from the dated table `regions.yaml`, which users may extend."""

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from config.facts.tables import read_table

REGIONS_FILE: Final = Path(__file__).with_name("regions.yaml")


class Region(NamedTuple):
    """One region. `types` are families and single types without `ml.`; None if they are unknown."""

    zones: tuple[str, ...]
    types: frozenset[str] | None

    def offers(self, instance_type: str) -> bool:
        """Return whether EC2 is known to offer a type, given by its name in EC2 or in HyperPod."""
        name = instance_type.removeprefix("ml.")
        return self.types is not None and bool({name, name.split(".")[0]} & self.types)


@cache
def regions() -> dict[str, Region]:
    """Return the known regions by their codes."""
    return {
        code: Region(tuple(row["zones"]), frozenset(row["types"]) if "types" in row else None)
        for code, row in read_table(REGIONS_FILE)["regions"].items()
    }


@cache
def families() -> frozenset[str]:
    """Return the families of instance types that the table lists."""
    return frozenset(name.split(".")[0] for region in regions().values() for name in region.types or ())


@cache
def grafana_regions() -> frozenset[str]:
    """Return the regions of the commercial partition that offer Amazon Managed Grafana."""
    return frozenset(read_table(REGIONS_FILE)["grafana"])


@cache
def budget_regions() -> frozenset[str]:
    """Return the regions of the commercial partition whose CloudFormation makes budgets."""
    return frozenset(read_table(REGIONS_FILE)["budgets"])


def table_date() -> str:
    """Return the day on which the table was compared with its sources."""
    date: str = read_table(REGIONS_FILE)["date"]
    return date
