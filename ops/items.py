"""One line of what `ops wait` looks at."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """FAILED is what no waiting mends."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True)
class Item:
    """One thing that has to be ready; `detail` is the figure or the reason a person reads."""

    kind: str
    name: str
    state: State
    detail: str
