"""Estimate an environment's costs per hour from the dated table `prices.yaml`. The result is no bill."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from config.container_insights import alarms_of
from config.facts import support
from config.facts.instance_types import catalogue
from config.facts.tables import read_table
from config.model import Environment

PRICES_FILE: Final = Path(__file__).with_name("prices.yaml")
HOURS_PER_MONTH: Final = 730
HOURS_PER_WEEK: Final = 168
SYSTEM_NODES: Final = "system nodes"
"""The item of the nodes of the managed node group."""


class Cost(NamedTuple):
    """One line of the estimate. `amount` may be empty; `usd_per_hour` is None without a price."""

    item: str
    amount: str
    usd_per_hour: float | None

    @property
    def what(self) -> str:
        """Item and amount in one phrase."""
        return f"{self.item}: {self.amount}" if self.amount else self.item


@dataclass(frozen=True)
class PricedNodes:
    """The nodes of an instance group, or the system nodes."""

    item: str
    count: int
    instance_type: str


class PricedFileSystem(NamedTuple):
    """A file system of FSx for Lustre (PERSISTENT_2, SSD)."""

    gib: int
    mbps_per_tib: int
    for_claim: bool
    """Whether the CSI driver makes it for a claim."""


class Inventory(NamedTuple):
    """What an environment has at a standing price, planned or at a moment."""

    groups: tuple[PricedNodes, ...]
    system: PricedNodes | None
    """None without an EKS cluster."""
    control_plane: str | None
    """EKS's version of Kubernetes; None without a control plane at a price."""
    nat_gateways: int
    file_systems: tuple[PricedFileSystem, ...]
    tracking_servers: int = 0
    """MLflow tracking servers of SageMaker, in the smallest size."""


@cache
def prices() -> dict[str, Any]:
    """Return the table: `date`, `region` and the prices; `instances` has those of the catalogue's types."""
    types = catalogue().values()
    nodes = {each.name: each.usd_per_hour for each in types}
    nodes |= {each.name.removeprefix("ml."): each.ec2_usd_per_hour for each in types}
    return read_table(PRICES_FILE) | {"instances": {name: usd for name, usd in nodes.items() if usd is not None}}


def estimate(environment: Environment) -> list[Cost]:
    """Return the standing costs of the environment: nodes, EKS, NAT gateways, file system, MLflow.

    What `unpriced` names is not in it, nor what exists without the environment.
    """
    lines = priced(planned(environment))
    if environment.in_cluster:
        programs = "Prometheus, Grafana and Alertmanager" if environment.alertmanager else "Prometheus and Grafana"
        lines.append(Cost(programs, "on the system nodes", 0.0))
    if alarms := alarms_of(environment):
        lines.append(Cost("CloudWatch alarms", str(len(alarms)), _alarms(environment)))
    if environment.container_insights:
        lines.append(Cost("CloudWatch dashboard", "", prices()["cloudwatch_dashboard_month"] / HOURS_PER_MONTH))
    if environment.managed_grafana:
        lines.append(Cost("Grafana workspace", "1 editor", prices()["grafana_editor_month"] / HOURS_PER_MONTH))
    return lines


def planned(environment: Environment) -> Inventory:
    """Return what the environment's file asks for."""
    fsx, system = environment.fsx, environment.system_nodes
    made = () if fsx.existing else (PricedFileSystem(fsx.capacity_gib, fsx.throughput_mbps_per_tib, fsx.dynamic),)
    return Inventory(
        groups=tuple(PricedNodes(g.name, g.count, g.instance_type) for g in environment.hyperpod.instance_groups),
        system=PricedNodes(SYSTEM_NODES, system.count, system.instance_type) if system else None,
        control_plane=None if environment.existing_eks else environment.kubernetes_version,
        nat_gateways=_nat_gateways(environment),
        file_systems=made,
        tracking_servers=int(environment.managed_mlflow),
    )


class SleepingNodes(NamedTuple):
    """What the nodes of an instance group cost while it sleeps and while it is awake, in US$ per hour."""

    group: str
    asleep: float
    awake: float
    hours_per_week: float
    """For how long it is awake whether used or not."""

    @property
    def least_per_month(self) -> float:
        """The US$ of a month in which nothing uses it."""
        share = self.hours_per_week / HOURS_PER_WEEK
        return HOURS_PER_MONTH * (self.awake * share + self.asleep * (1 - share))


def sleeping(environment: Environment) -> list[SleepingNodes]:
    """Return the costs of the groups that sleep while nothing uses them; those without a price are left out."""
    prices_of, found = prices_of_nodes(environment), []
    for group in environment.hyperpod.instance_groups:
        if group.sleep and (price := prices_of.get(group.instance_type)) is not None:
            hours = group.sleep.hours_per_week
            found.append(SleepingNodes(group.name, group.sleep.min * price, group.count * price, hours))
    return found


def paused(environment: Environment) -> Inventory:
    """Return what costs while the environment has no HyperPod node."""
    return planned(environment)._replace(groups=())


def priced(inventory: Inventory) -> list[Cost]:
    """Return a line for each item, in the order of the inventory."""
    table = prices()
    lines = [_nodes(nodes) for nodes in (*inventory.groups, inventory.system) if nodes]
    if version := inventory.control_plane:
        phase = support.phase(version)
        amount = "" if phase is support.Phase.STANDARD else f"{version}, {phase or 'unknown support'}"
        lines.append(Cost("EKS control plane", amount, control_plane(version)))
    if gateways := inventory.nat_gateways:
        lines.append(Cost("NAT gateways", str(gateways), table["nat_gateway"] * gateways))
    lines += [_file_system(each) for each in inventory.file_systems]
    if servers := inventory.tracking_servers:
        lines.append(Cost("MLflow tracking server", f"{servers} x Small", table["mlflow"]["Small"] * servers))
    return lines


def control_plane(version: str) -> float | None:
    """Return the US$ per hour of EKS's control plane with this version of Kubernetes; None for an unknown one."""
    phase, of = support.phase(version), prices()["eks_cluster"]
    if phase is None:
        return None
    # EKS upgrades a version without support in the days after its end.
    return float(of["standard" if phase is support.Phase.STANDARD else "extended"])


def prices_of_nodes(environment: Environment) -> dict[str, float]:
    """Map each instance type of the environment's nodes to its US$ per hour; a type without a price is left out."""
    has, table = planned(environment), prices()["instances"]
    kinds = {nodes.instance_type for nodes in (*has.groups, has.system) if nodes}
    return {kind: table[kind] for kind in sorted(kinds) if kind in table}


def by_part(environment: Environment) -> dict[str, float]:
    """Return the US$ per hour of what each stack has, by its part; what has no price is left out."""
    made = planned(environment)
    nothing = Inventory((), None, None, 0, ())
    parts = {
        "network": nothing._replace(nat_gateways=made.nat_gateways),
        "storage": nothing._replace(
            file_systems=tuple(each for each in made.file_systems if not each.for_claim),
            tracking_servers=made.tracking_servers,
        ),
        "eks": nothing._replace(system=made.system, control_plane=made.control_plane),
        "hyperpod": nothing._replace(groups=made.groups),
        "ray": nothing._replace(file_systems=tuple(each for each in made.file_systems if each.for_claim)),
    }
    return {part: sum(line.usd_per_hour or 0.0 for line in priced(has)) for part, has in parts.items()}


def unpriced(environment: Environment) -> list[str]:
    """Name what `estimate` leaves out although the environment pays for it."""
    named = ["volumes of nodes"]
    if _nat_gateways(environment):
        named.append("public IPv4 addresses of NAT gateways")
    if environment.network.closed:
        named.append("interface endpoints")
    if environment.container_insights:
        named.append("Container Insights' observations")
    if environment.hyperpod_observability:
        named.append("samples in the Prometheus workspace")
    if environment.managed_grafana:
        named.append("more people who sign in to Grafana")
    return [*named, "KMS keys", "traffic", "logs", "images", "objects in buckets"]


def _alarms(environment: Environment) -> float:
    return float(len(alarms_of(environment)) * prices()["cloudwatch_alarm_month"] / HOURS_PER_MONTH)


def _nodes(nodes: PricedNodes) -> Cost:
    price = prices()["instances"].get(nodes.instance_type)
    # Without nodes a missing price does not matter.
    usd = price * nodes.count if price is not None else (None if nodes.count else 0.0)
    return Cost(nodes.item, f"{nodes.count} x {nodes.instance_type}", usd)


def _file_system(made: PricedFileSystem) -> Cost:
    price = prices()["fsx_gib_month"].get(str(made.mbps_per_tib))
    item = "FSx for Lustre for its claim" if made.for_claim else "FSx for Lustre"
    return Cost(item, f"{made.gib:,} GiB", None if price is None else price * made.gib / HOURS_PER_MONTH)


def _nat_gateways(environment: Environment) -> int:
    network = environment.network
    return 0 if network.existing else {"none": 0, "one": 1, "one-per-zone": len(network.zones)}[network.nat_gateways]
