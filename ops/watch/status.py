"""Gather the status of an environment: each section is read apart, so that one unreadable part hides no other."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from config import EksEnvironment, Environment, SlurmEnvironment
from config.estimates.costs import estimate
from ops.clients import CallerAccount, Clients, connect
from ops.errors import UnreachableError, as_viewer
from ops.nodes.listing import nodes
from ops.readiness.item import ReadinessItem, ReadinessState
from ops.readiness.observe import observe, observe_slurm
from ops.slurm.health import slurm_health
from ops.slurm.nodes import slurm_nodes
from ops.watch import sections

UNSEEN: Final = "unseen"
"""The key of a section that cannot be read; its value says why."""

Section = Any


@dataclass(frozen=True)
class Status:
    """The status at one moment.

    Attributes:
        items: What `ops wait` waits for; empty if it cannot be read.
        obstacle: Why `items` cannot be read, or "".
        sections: Everything else by name: JSON-like, or `{UNSEEN: reason}`.
    """

    environment: str
    time: datetime
    items: list[ReadinessItem]
    obstacle: str
    sections: Mapping[str, Section]

    @property
    def is_ready(self) -> bool:
        """Whether everything that `ops wait` waits for is ready."""
        return not self.obstacle and all(item.state is ReadinessState.READY for item in self.items)

    def as_data(self) -> dict[str, Any]:
        """Return the status for JSON and YAML."""
        items = [{"kind": i.kind, "name": i.name, "state": str(i.state), "detail": i.detail} for i in self.items]
        return {
            "environment": self.environment,
            "time": self.time.isoformat(timespec="seconds"),
            "ready": self.is_ready,
            "items": {UNSEEN: self.obstacle} if self.obstacle else items,
            **self.sections,
        }


def read_status(environment: Environment, account: CallerAccount) -> Status:
    """Return the status of the environment. What a refusal or a missing cluster hides is named, and raises nothing."""
    if isinstance(environment, SlurmEnvironment):
        return _read_slurm_status(environment, account)
    items: list[ReadinessItem] = []
    obstacle = ""
    found: dict[str, Section] = {"stacks": _see(partial(sections.stacks, environment, account))}
    with ExitStack() as stack:
        clients = None
        try:
            clients = stack.enter_context(connect(environment, account))
            items = observe(environment, clients)
        except UnreachableError as error:
            obstacle = str(error)
        found |= {
            "instance_groups": _see(partial(sections.instance_groups, environment, account)),
            **_of_the_cluster(environment, account, clients, obstacle),
            "support": sections.support(environment),
            "cost": _cost(environment),
        }
    return Status(environment.name, datetime.now(UTC), items, obstacle, found)


def _read_slurm_status(environment: SlurmEnvironment, account: CallerAccount) -> Status:
    sagemaker = account.client("sagemaker")
    items: list[ReadinessItem] = []
    obstacle = ""
    try:
        items = observe_slurm(environment, account)
    except UnreachableError as error:
        obstacle = str(error)
    found = {
        "stacks": _see(partial(sections.stacks, environment, account)),
        "instance_groups": _see(partial(sections.instance_groups, environment, account)),
        "slurm_nodes": _see(lambda: [node.as_data() for node in slurm_nodes(environment, sagemaker)]),
        "slurm_health": _see(lambda: slurm_health(environment.hyperpod.cluster_name, sagemaker)),
        "cost": _cost(environment),
    }
    return Status(environment.name, datetime.now(UTC), items, obstacle, found)


def _of_the_cluster(
    environment: EksEnvironment, account: CallerAccount, clients: Clients | None, obstacle: str
) -> dict[str, Section]:
    """Return the sections that need the Kubernetes API."""
    readers: dict[str, Callable[[Clients], Section]] = {
        "nodes": lambda clients: [node.as_data() for node in nodes(environment, clients)],
        "ray_clusters": partial(sections.ray_clusters, environment),
        "pending_pods": partial(sections.pending_pods, environment),
        "jobs": partial(sections.jobs, environment),
        "file_system": partial(sections.file_system, environment, account),
    }
    if clients is None:
        return {name: {UNSEEN: obstacle} for name in readers}
    return {name: _see(partial(read, clients)) for name, read in readers.items()}


def _see(read: Callable[[], Section]) -> Section:
    try:
        with as_viewer():
            return read()
    except UnreachableError as error:
        return {UNSEEN: str(error)}


def _cost(environment: Environment) -> Section:
    lines = estimate(environment)
    return {
        "usd_per_hour": round(sum(line.usd_per_hour or 0 for line in lines), 2),
        "without_price": [line.what for line in lines if line.usd_per_hour is None],
    }
