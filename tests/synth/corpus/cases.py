"""Describe a pair of assemblies, and the verdict that is expected of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ops.review.model import Change, Danger, Effect
from tests.synth.corpus.editing import Edit

Editing = Callable[[Edit], None]
Document = dict[str, Any]


class Category(StrEnum):
    """What a pair is about. Each has pairs that stop the gate and pairs that pass it."""

    DATA = "data"
    CLUSTERS = "clusters"
    GROUPS = "groups"
    PERMISSIONS = "permissions"
    NETWORK = "network"
    ISOLATION = "isolation"
    PROTECTION = "protection"
    JOBS = "jobs"
    UNKNOWN = "unknown"
    SCRIPTS = "scripts"


@dataclass(frozen=True)
class Expected:
    """A change that the verdict must contain."""

    resource: str
    """How its stable name begins, with or without slashes: `AWS::S3::Bucket Data`. Empty: any."""
    effects: frozenset[Effect]
    """It has one of these."""
    dangers: frozenset[Danger] = frozenset()
    """It has at least one of these, if there are any."""
    words: tuple[str, ...] = ()
    """Its title, what, reason and action together contain all of these, whatever their case."""
    confirmed_by: str = ""

    def met_by(self, change: Change) -> bool:
        """Return whether the change is the expected one."""
        text = " ".join((change.title, change.what, change.reason, change.action)).lower()
        return (
            change.resource.replace("/", "").startswith(self.resource.replace("/", ""))
            and change.effect in self.effects
            and (not self.dangers or bool(self.dangers & change.dangers))
            and all(word.lower() in text for word in self.words)
            and change.confirmed_by == self.confirmed_by
        )


@dataclass(frozen=True)
class Costs:
    """How the standing costs differ, after less before."""

    usd_per_hour: tuple[float, float]
    """The least and the most that is right, from AWS's price list."""
    gpus: int = 0


@dataclass(frozen=True)
class Case:
    """A pair: `prepare` edits copies of a synthesised assembly on both sides, `edit` the head only.

    For a real edit of an environment's file, `file` edits the head's document and `base_file` the base's.
    """

    name: str
    category: Category
    stop: bool
    changes: tuple[Expected, ...]
    worst: Effect
    """No change is worse than this."""
    environment: str = "dev"
    prepare: Editing | None = None
    edit: Editing | None = None
    file: Callable[[Document], None] | None = None
    base_file: Callable[[Document], None] | None = None
    new: bool = False
    """The environment has no base."""
    costs: Costs | None = None
    """None: costs do not matter here."""


CASES: Final[list[Case]] = []


def expect(
    resource: str, *effects: Effect, dangers: Danger | tuple[Danger, ...] = (), words: tuple[str, ...] = ()
) -> Expected:
    """Return an expected change; more than one effect or danger: any of them is right."""
    return Expected(
        resource, frozenset(effects), frozenset((dangers,) if isinstance(dangers, Danger) else dangers), words
    )


def destructive(
    name: str,
    category: Category,
    *changes: Expected,
    environment: str = "dev",
    prepare: Editing | None = None,
    costs: Costs | None = None,
) -> Callable[[Editing], Editing]:
    """Add a pair that stops the gate; the decorated function edits the head."""

    def add(edit: Editing) -> Editing:
        worst = Effect.DATA_LOST
        CASES.append(Case(name, category, True, changes, worst, environment, prepare, edit, costs=costs))
        return edit

    return add


def harmless(
    name: str,
    category: Category,
    *changes: Expected,
    worst: Effect,
    environment: str = "dev",
    prepare: Editing | None = None,
    costs: Costs | None = None,
) -> Callable[[Editing], Editing]:
    """Add a pair that passes the gate, with no change worse than `worst`; the decorated function edits the head."""

    def add(edit: Editing) -> Editing:
        CASES.append(Case(name, category, False, changes, worst, environment, prepare, edit, costs=costs))
        return edit

    return add
