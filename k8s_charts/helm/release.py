"""A Helm release as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE


@dataclass(frozen=True)
class HelmRelease:
    """A release of a locked chart: `chart` is its name in config/facts/charts.lock.yaml.

    `version` selects one of several locked versions. With `only_crds` the release holds only the chart's custom
    resource definitions.
    """

    chart: str
    name: str
    namespace: str
    values: Mapping[str, Any]
    version: str | None = None
    only_crds: bool = False


def on_system_nodes() -> dict[str, str]:
    """Return the node selector of everything that runs on system nodes."""
    return {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE}
