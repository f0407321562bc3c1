"""How much of a run's paid time was useful, and what the rest was lost to.

A run's time is paid from the start of its first workers to its end, whatever runs on the nodes meanwhile. It is divided
by the run's own records: when each group of workers began and from which checkpoint (attempts/), and what it did with
its time (telemetry/). Only steps that led to the run's current state are useful.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.extending import ends

REPEATED: Final = "repeated steps"
STARTING: Final = "start-up"
SAVING: Final = "checkpoints"
WAITING: Final = "waiting"


@dataclass(frozen=True)
class GoodputGroup:
    """A group of workers; times are in seconds since 1970."""

    writer: Writer
    began: float
    origin: Saved | None
    """The checkpoint from which it resumed."""
    ready: float | None = None
    """When it had loaded that checkpoint; None if it never had."""
    step: int = 0
    """The last step that it recorded."""
    saving: float = 0.0
    """Seconds in which checkpoints kept it from training."""
    training: float = 0.0
    """Seconds of its steps."""

    @property
    def last_sign(self) -> float:
        return self.began if self.ready is None else self.ready + self.saving + self.training


@dataclass(frozen=True)
class Goodput:
    """Seconds of a run; `lost` has the same keys for every run, and adds up to `paid` with `useful`."""

    paid: float
    useful: float
    lost: Mapping[str, float]

    @property
    def share(self) -> float:
        """Return the useful share of the paid time, from 0 to 1."""
        return self.useful / self.paid if self.paid else 0.0


def goodput(store: CheckpointStore) -> Goodput:
    """Return the goodput of a run up to its end, or to the last sign of its workers.

    Raises:
        OSError: the run's folder cannot be read.
    """
    return account(groups(store), ends(store.storage))


def groups(store: CheckpointStore) -> list[GoodputGroup]:
    """Return all groups of workers that ever began, oldest first."""
    return [_group(store, writer) for writer in store.writers()]


def account(groups: Sequence[GoodputGroup], ends: Iterable[float] = ()) -> Goodput:
    """Divide the time of a run among these groups, oldest first; `ends` are the times at which the run was done.

    The time between an end and the next workers is not the run's: it was extended later.
    """
    counted = _counted(groups)
    lost = dict.fromkeys((REPEATED, STARTING, SAVING, WAITING), 0.0)
    paid = useful = 0.0
    ends = sorted(ends)
    for number, group in enumerate(groups):
        following = groups[number + 1].began if number + 1 < len(groups) else math.inf
        end = next((one for one in ends if group.began <= one <= following), following)
        time = max(0.0, (group.last_sign if end == math.inf else end) - group.began)
        starting = time if group.ready is None else min(max(0.0, group.ready - group.began), time)
        # Workers that were given up may have trained on beside their successors: that time is paid once.
        worked = group.saving + group.training
        scale = min(1.0, (time - starting) / worked) if worked else 0.0
        share = counted.get(group.writer, 0.0)
        paid += time
        useful += share * scale * group.training
        lost[REPEATED] += (1 - share) * scale * group.training
        lost[STARTING] += starting
        lost[SAVING] += scale * group.saving
        lost[WAITING] += time - starting - scale * worked
    return Goodput(paid, useful, lost)


def _counted(groups: Sequence[GoodputGroup]) -> dict[Writer, float]:
    """Return the share of each group's steps that led to the run's current state; other groups' steps did not."""
    known = {group.writer: group for group in groups}
    counted = {}
    group, until = groups[-1] if groups else None, math.inf
    while group is not None and group.writer not in counted:
        origin = group.origin
        first = origin.step if origin else 0
        steps = group.step - first
        counted[group.writer] = min(1.0, (until - first) / steps) if steps > 0 else 0.0
        group, until = (known.get(origin.writer), origin.step) if origin else (None, 0)
    return counted


def _group(store: CheckpointStore, writer: Writer) -> GoodputGroup:
    began = _read(store, f"attempts/{writer}.json")
    record = _read(store, f"telemetry/{writer}.json")
    origin = Saved.parse(began.get("resumed_from") or "")
    since = _seconds(began["began"]) if "began" in began else 0.0
    if not record:
        return GoodputGroup(writer, since, origin)
    return GoodputGroup(writer, since, origin, record["ready"], record["step"], record["saving"], record["training"])


def _read(store: CheckpointStore, name: str) -> dict[str, Any]:
    content = store.storage.read(name)
    found: dict[str, Any] = json.loads(content) if content else {}
    return found


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).astimezone(timezone.utc).timestamp()
