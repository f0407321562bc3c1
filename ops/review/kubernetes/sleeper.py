"""What the sleeper of an assembly knows of the groups that sleep, by the arguments of its container."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from config.model.hyperpod import Sleep
from k8s_charts.shared.names import DCGM_EXPORTER, SLEEPER
from ops.review.assembly import Assembly, number
from ops.review.kubernetes.deltas import at
from ops.review.kubernetes.objects import applied, groups_of
from ops.review.sleeping import ranges

PROGRAM: Final = "controllers.sleeper"
_GROUP: Final = "--group="
_KEYS: Final = frozenset({"group", "count", "min", "after_seconds", "hours", "workers"})
_LEAST_SECONDS: Final = 600
_NO_HOURS: Final = "none"


@dataclass(frozen=True)
class KnownGroup:
    """A group that sleeps, as the sleeper knows it."""

    name: str
    count: int
    sleep: Sleep
    workers: frozenset[tuple[Any, ...]]
    """RayCluster, worker group, replicas and fewest replicas of Ray's workers on it."""
    further: str
    """All else that is said of it, as JSON."""

    @property
    def hours(self) -> str:
        """The hours in which it is awake; `none` without any."""
        return self.sleep.hours or _NO_HOURS

    @property
    def words(self) -> str:
        """How it sleeps, for readers: `after 30m, min 0, hours none`."""
        return f"after {self.sleep.after}, min {self.sleep.min}, hours {self.hours}"


@lru_cache(maxsize=4)
def known_groups(assembly: Assembly | None) -> Mapping[str, KnownGroup]:
    """Return what an assembly's only sleeper knows, by group; nothing if any of it cannot be read."""
    found = [
        [str(word) for word in at(container, "args") or []]
        for each in applied(assembly, "Deployment")
        if each.name == SLEEPER
        for container in at(each.body, "spec", "template", "spec", "containers") or []
        if PROGRAM in (at(container, "command") or [])
    ]
    return (_read(found[0]) or {}) if len(found) == 1 else {}


def only_groups_differ(before: Sequence[str], after: Sequence[str], head: Assembly) -> bool:
    """Return whether two command lines of the sleeper differ only in groups, which are those of `head`.

    What it does not know of a group, or not as it is, may take nodes in use, or let a group sleep for ever.
    """
    old, new = _read(before), _read(after)
    if PROGRAM not in before or old is None or new is None or _others(before) != _others(after):
        return False
    asked = any(each.name == DCGM_EXPORTER for each in applied(head, "DaemonSet"))
    further = all(
        each.further in ([old[name].further] if name in old else _of_new(asked)) for name, each in new.items()
    )
    wanted = ranges(head)
    same = {name: (each.sleep.min, each.count) for name, each in new.items()} == wanted
    return further and same and all(each.workers == _workers(head, name) for name, each in new.items())


def differences(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield how each group that both command lines name sleeps otherwise; `min` and `count` are told at the group."""
    old, new = _read(before) or {}, _read(after) or {}
    for name in old.keys() & new.keys():
        pairs = {
            "after": (old[name].sleep.after, new[name].sleep.after),
            "hours": (old[name].hours, new[name].hours),
        }
        changed = [f"{key} {was} → {now}" for key, (was, now) in pairs.items() if was != now]
        if changed:
            yield f"instance group {name} sleeps {', '.join(changed)}"


def _read(words: Sequence[str]) -> dict[str, KnownGroup] | None:
    """Return the groups of a command line; None if one cannot be read, or has a name twice."""
    texts = [word.removeprefix(_GROUP) for word in words if word.startswith(_GROUP)]
    groups = [_known(text) for text in texts]
    found = {each.name: each for each in groups if each}
    return found if len(found) == len(texts) else None


def _others(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith(_GROUP)]


def _known(text: str) -> KnownGroup | None:
    try:
        said = json.loads(text)
        seconds, hours = said["after_seconds"], said["hours"]
        sleep = Sleep(after=_time(seconds), min=said["min"], hours=hours)
        workers = [(each["cluster"], each["name"], each["replicas"], each["min_replicas"]) for each in said["workers"]]
        if hours is not None:
            ZoneInfo(hours.split(" ")[-1])
        further = json.dumps({key: value for key, value in said.items() if key not in _KEYS}, sort_keys=True)
        found = KnownGroup(said["group"], said["count"], sleep, frozenset(workers), further)
    except (AttributeError, KeyError, TypeError, ValueError, OSError, RecursionError):
        return None
    numbers = (said["count"], said["min"], seconds)
    if any(type(each) is not int for each in numbers) or seconds < _LEAST_SECONDS or not isinstance(found.name, str):
        return None
    return found if sleep.hours_per_week > 0 or hours is None else None


def _of_new(asked: bool) -> list[str]:
    """Return what else may be said of a new group; if nodes have exporters of GPUs, that it asks them."""
    return [json.dumps({"gpus": gpus, "wake": []}, sort_keys=True) for gpus in ((True,) if asked else (True, False))]


def _time(seconds: int) -> str:
    return f"{seconds // 3600}h" if seconds % 3600 == 0 else f"{seconds // 60}m"


def _workers(assembly: Assembly, group: str) -> frozenset[tuple[Any, ...]]:
    """Return Ray's workers that select the instance group."""
    return frozenset(
        (each.name, workers.get("groupName"), number(workers.get("replicas")), number(workers.get("minReplicas")))
        for each in applied(assembly, "RayCluster")
        for workers in at(each.body, "spec", "workerGroupSpecs") or []
        if groups_of(at(workers, "template", "spec") or {})[:1] == [group]
    )
