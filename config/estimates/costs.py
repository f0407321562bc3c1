"""Estimate an environment's costs per hour from the dated table `prices.yaml`. The result is no bill."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from config.facts.tables import read_table
from config.model import Environment

PRICES_FILE: Final = Path(__file__).with_name("prices.yaml")
HOURS_PER_MONTH: Final = 730


@dataclass(frozen=True)
class Cost:
    """One line of the estimate. `usd_per_hour` is None if the table has no price."""

    what: str
    usd_per_hour: float | None


@cache
def prices() -> dict[str, Any]:
    """Return the table: `date`, `region` and the prices."""
    return read_table(PRICES_FILE)


def estimate(environment: Environment) -> list[Cost]:
    """Return the standing costs of the environment: nodes, EKS, NAT gateways, file system.

    Neither traffic nor interface endpoints are in it, nor what exists without the environment.
    """
    table = prices()
    instances: dict[str, float] = table["instances"]
    system = environment.eks.system_nodes
    nodes = [
        (f"{g.name}: {g.count} x {g.instance_type}", g.count, g.instance_type)
        for g in environment.hyperpod.instance_groups
    ]
    nodes.append((f"system nodes: {system.count} x {system.instance_type}", system.count, system.instance_type))
    lines = [Cost(what, instances[kind] * count if kind in instances else None) for what, count, kind in nodes]
    if environment.eks.existing is None:
        lines.append(Cost("EKS control plane", table["eks_cluster"]))
    if gateways := _nat_gateways(environment):
        lines.append(Cost(f"NAT gateways: {gateways}", table["nat_gateway"] * gateways))
    fsx = environment.fsx
    if fsx.existing is None:
        made = " for its claim" if fsx.dynamic else ""
        month = table["fsx_gib_month"][str(fsx.throughput_mbps_per_tib)] * fsx.capacity_gib
        lines.append(Cost(f"FSx for Lustre{made}: {fsx.capacity_gib:,} GiB", month / HOURS_PER_MONTH))
    return lines


def _nat_gateways(environment: Environment) -> int:
    network = environment.network
    return 0 if network.existing else {"none": 0, "one": 1, "one-per-zone": len(network.zones)}[network.nat_gateways]
