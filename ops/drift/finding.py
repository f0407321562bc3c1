"""What a search for drift reports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Drift:
    """One thing that differs from what was deployed, or is gone."""

    kind: str
    name: str
    detail: str


@dataclass(frozen=True)
class Drifts:
    """The drift of an environment, and the parts that could not be compared, each with its reason."""

    found: tuple[Drift, ...]
    not_compared: tuple[str, ...]
