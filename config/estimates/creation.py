"""Return how long AWS takes to create and delete a resource, from the dated table `creation_minutes.yaml`."""

from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from config.facts.tables import read_table

MINUTES_FILE: Final = Path(__file__).with_name("creation_minutes.yaml")

NODES: Final = "nodes"
DEEP_CHECKS: Final = "deep health checks"
IMAGE_BUILD: Final = "image build"
PULL: Final = "pull of an image of 10 GB"
"""The names of what CloudFormation does not wait for."""


FUNCTION_IN_VPC: Final = "AWS::Lambda::Function in a VPC"
"""A function whose deletion waits until Lambda has deleted its network interfaces."""


class CreationTime(NamedTuple):
    """The range of a duration in minutes; `estimate` says what of it no source supports, and why we took it."""

    low: float
    typical: float
    high: float
    source: str
    estimate: str = ""


@cache
def _table() -> dict[str, Any]:
    return read_table(MINUTES_FILE)


def _minutes(row: dict[str, Any]) -> CreationTime:
    low, typical, high = row["minutes"]
    return CreationTime(low, typical, high, row["source"], row.get("estimate", ""))


@cache
def by_type() -> dict[str, CreationTime]:
    """Return the minutes by CloudFormation's type."""
    seconds = _table()["seconds"]
    slow = {name: _minutes(row) for name, row in _table()["types"].items()}
    return slow | {name: _minutes(seconds) for name in seconds["types"]}


@cache
def deletions() -> dict[str, CreationTime]:
    """Return the minutes of deletions by CloudFormation's type."""
    return {name: _minutes(row) for name, row in _table()["deletions"].items()}


def of_deletion(resource_type: str) -> CreationTime:
    """Return the minutes of the type's deletion; a type without a row counts as one that takes seconds."""
    return deletions().get(resource_type) or _minutes(_table()["seconds"])


def of_type(resource_type: str) -> CreationTime:
    """Return the type's minutes; a type without a row counts as one that takes seconds."""
    return by_type().get(resource_type) or _minutes(_table()["seconds"])


def of_stack() -> CreationTime:
    """Return what a stack takes besides its resources."""
    return _minutes(_table()["stack"])


def later(*, ray: bool) -> dict[str, CreationTime]:
    """Return the minutes of what CloudFormation does not wait for, by name; with `ray`, also of Ray's image."""
    rows = _table()["later"] | (_table()["later_with_ray"] if ray else {})
    return {name: _minutes(row) for name, row in rows.items()}
