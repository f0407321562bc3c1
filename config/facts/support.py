"""Say until when a version is supported, from the dated table `support.yaml`."""

import os
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from config.facts.tables import read_table
from config.findings import ConfigError

TODAY_VARIABLE: Final = "RAYHP_TODAY"
"""Name of the variable with the day that counts as today. Tests set it, so that no day turns them red."""
KUBERNETES: Final = "Kubernetes on EKS"


class Phase(StrEnum):
    """The phase of support that a version is in."""

    STANDARD = "standard support"
    EXTENDED = "extended support"
    ENDED = "no support"
    UNPUBLISHED = "no published end"


class Support(NamedTuple):
    """The support of one version: the first days without standard and without extended support, if there are any.

    `flaws` maps each known flaw of the version to the first version without it.
    """

    component: str
    version: str
    until: date | None
    extended: date | None
    flaws: dict[str, str]

    @property
    def end(self) -> date | None:
        """The first day after the phase of today, or the day on which support ended."""
        return self.until if self.phase is Phase.STANDARD else self.extended or self.until

    @property
    def phase(self) -> Phase:
        """The phase today."""
        if self.until is None:
            return Phase.UNPUBLISHED
        if today() < self.until:
            return Phase.STANDARD
        return Phase.EXTENDED if self.extended and today() < self.extended else Phase.ENDED


def today() -> date:
    """Return the day by which support is judged. Raises ConfigError if the variable holds no day."""
    if not (stated := os.environ.get(TODAY_VARIABLE)):
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(stated)
    except ValueError:
        reason = f"{TODAY_VARIABLE}: {stated!r} is invalid: it is no day. Allowed: YYYY-MM-DD"
        raise ConfigError(f"{reason}. Fix: unset {TODAY_VARIABLE}") from None


@cache
def table() -> dict[str, Any]:
    """Return the table: `date` and the components."""
    return read_table(Path(__file__).with_name("support.yaml"))


def versions(component: str) -> dict[str, Support]:
    """Map each version of the component to its support, oldest first."""
    [found] = (each for each in table()["components"] if each["name"] == component)
    return {
        version: Support(
            component, version, _day(ends.get("until")), _day(ends.get("extended")), _flaws(found, version)
        )
        for version, ends in found["versions"].items()
    }


def offered(day: date) -> list[str]:
    """Return the versions of Kubernetes that a cluster can be created with on this day, oldest first."""
    return [each.version for each in versions(KUBERNETES).values() if each.extended is None or day < each.extended]


def phase(version: str) -> Phase | None:
    """Return the phase of a version of Kubernetes on EKS today; None if the table lacks it."""
    found = versions(KUBERNETES).get(version)
    return found.phase if found else None


def number(version: str) -> tuple[int, ...]:
    """Return a version as a number that can be compared."""
    return tuple(map(int, version.split(".")))


def _flaws(component: dict[str, Any], version: str) -> dict[str, str]:
    flaws: dict[str, str] = component.get("flaws", {})
    return {flaw: mended for flaw, mended in flaws.items() if number(version) < number(mended)}


def _day(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None
