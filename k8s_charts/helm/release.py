"""A Helm release as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE


@dataclass(frozen=True)
class HelmRelease:
    """A release of a locked chart: `chart` is its name in config/facts/charts.lock.yaml.

    `version` chooses where the lock has several. `only_crds`: of the chart nothing but its custom resource definitions,
    as objects of this release.
    """

    chart: str
    name: str
    namespace: str
    values: Mapping[str, Any]
    version: str | None = None
    only_crds: bool = False


def on_system_nodes() -> dict[str, str]:
    """Node selector of everything that keeps the cluster going."""
    return {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE}
