"""List the drills: in each one thing fails on purpose, and a promise must be kept. `make drill` shows them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from rehearsal.drills import (
    api_server_restarts,
    head_lost,
    head_node_dies,
    node_dies,
    node_replaced,
    operator_down,
    thousand_workers,
    worker_fails,
    workers_scaled,
)
from rehearsal.drills.account import capacity, create_fails, head_node_alone, pause, removals, scale_down
from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.paths import DRILLS_IN_AN_ACCOUNT, DRILLS_ON_KUBERNETES

_ALL: Final[tuple[Drill[Any], ...]] = (
    create_fails.DRILL,
    capacity.DRILL,
    scale_down.DRILL,
    head_node_alone.DRILL,
    removals.DRILL,
    pause.DRILL,
    node_dies.DRILL,
    head_node_dies.DRILL,
    node_replaced.DRILL,
    worker_fails.DRILL,
    head_lost.DRILL,
    workers_scaled.DRILL,
    operator_down.DRILL,
    api_server_restarts.DRILL,
    thousand_workers.DRILL,
)
DRILLS: Final[Mapping[str, Drill[Any]]] = {drill.name: drill for drill in _ALL}
"""The drills by name, in the order of the list. To add a drill, add a module to this package and an entry here."""


def directories(names: Iterable[str]) -> list[Path]:
    """Return the folders that these drills need for themselves, in the order in which to lock them."""
    return sorted(
        {DRILLS_IN_AN_ACCOUNT if DRILLS[name].context is DrillContext else DRILLS_ON_KUBERNETES for name in names}
    )
