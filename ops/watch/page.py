"""Name the pages that `ops dashboard` serves."""

from enum import StrEnum
from typing import Final

from k8s_charts.shared.names import DASHBOARD_PORT


class Page(StrEnum):
    """A page of a pod of the environment."""

    RAY = "ray"
    TENSORBOARD = "tensorboard"
    SERVE = "serve"
    PROMETHEUS = "prometheus"
    ALERTMANAGER = "alertmanager"


HEAD_PORTS: Final = {Page.RAY: DASHBOARD_PORT, Page.TENSORBOARD: 6006, Page.SERVE: 8000}
"""The pages of a head, each with its program's default port."""
