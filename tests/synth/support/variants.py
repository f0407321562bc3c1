"""Environments of the tests that ask for what no file of tests/environments asks for."""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Network
from typing import Final

from config import EksEnvironment, Environment, SlurmEnvironment, load, load_any, load_as
from config.model import (
    Alerts,
    ContainerInsights,
    Grafana,
    HyperPodObservability,
    InCluster,
    Notifications,
    Observability,
)
from config.model.hyperpod import Sleep
from tests.support.sleeping_environment import with_sleep

WATCHED: Final = "watched"
OBSERVED: Final = "observed"
BUDGETED: Final = "budgeted"
SLEEPING: Final = "sleeping"
GRAFANA: Final = Grafana(public_access_cidrs=(IPv4Network("203.0.113.0/24"),))


def watched(name: str) -> EksEnvironment:
    """Return an environment with all that CloudWatch and Alertmanager watch, and receivers of the alarms."""
    wanted = Observability(
        container_insights=ContainerInsights(log_retention_days=14),
        in_cluster=InCluster(),
        alerts=Alerts(emails=("ml-platform@example.com",), https=("https://alerts.example.com/a",)),
    )
    return load(name).model_copy(update={"observability": wanted})


def observed(name: str, grafana: Grafana | None = GRAFANA) -> EksEnvironment:
    """Return an environment with HyperPod's observability add-on, and with a Grafana workspace unless it is None."""
    wanted = Observability(hyperpod=HyperPodObservability(grafana=grafana))
    return load(name).model_copy(update={"observability": wanted})


def sleeping() -> EksEnvironment:
    """Return an environment whose workers sleep while nothing uses them."""
    return with_sleep(load("dev"), Sleep(min=1))


def budgeted() -> SlurmEnvironment:
    """Return an environment with a monthly budget: one with Slurm has the fewest stacks, and no company's key."""
    notifications = Notifications(email="ml-platform@example.com", monthly_budget_usd=20_000)
    return load_as(SlurmEnvironment, "slurm").model_copy(update={"notifications": notifications})


VARIANTS: Final[Mapping[str, Callable[[], Environment]]] = {
    WATCHED: lambda: watched("dev"),
    OBSERVED: lambda: observed("closed"),
    BUDGETED: budgeted,
    SLEEPING: sleeping,
}
"""The variants that every policy of cdk-nag and checkov is checked with, by name."""


def environment(name: str) -> Environment:
    """Return a variant, or the environment whose file has the name."""
    variant = VARIANTS.get(name)
    return variant() if variant else load_any(name)
