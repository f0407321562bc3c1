"""The node-hours that a week's uses need, worked out from what docs/operate/sleep.md says and from nothing else.

Nodes are needed

- from the arrival of a use until `after` later than its end. Uses are runs, jobs, notebooks, and times in which the
  head did not answer ("what cannot be asked counts as used");
- within the group's hours, and for `after` later;
- for `after` from a look that came more than two minutes after the one before, or was the first ("time in which no
  sleeper looked");
- beyond that, for as long as HyperPod or the function took no change: in a deployment, in deep health checks, when
  UpdateCluster or the function failed, and a minute more;
- then as long as HyperPod takes for the update and to end an instance.

In these spans each node that HyperPod had is needed: how soon it brings nodes, and how many it has, is its affair.
Outside of them, only `min` nodes are. How long a controller takes to look, to end Ray's workers and to ask is its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from tests.rehearsal.kubernetes.sleep_week.schedule import HOUR, MINUTE, Schedule, Span, union

GAP = 120.0


@dataclass
class Record:
    """What happened: `nodes` are the times at which HyperPod's number of nodes changed."""

    uses: list[Span] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    hindered: list[Span] = field(default_factory=list)
    nodes: list[tuple[float, int]] = field(default_factory=list)


@dataclass(frozen=True)
class NodeHours:
    """What was spent, and what is enough."""

    spent: float
    least: float


def node_hours(schedule: Schedule, record: Record, ends: float, going: float) -> NodeHours:
    """Return the node-hours until `ends`; `going` is how long a node takes to go once HyperPod was asked."""
    gaps = [later for earlier, later in pairwise(record.looks) if later - earlier > GAP]
    uses = [*record.uses, *schedule.within_hours(ends), *((at, at) for at in (*record.looks[:1], *gaps))]
    hindered = union((begin, end + MINUTE) for begin, end in record.hindered)
    needed = union((begin, _free(end + schedule.after, hindered) + going) for begin, end in uses)
    spent = least = 0.0
    for (begin, count), (end, _) in pairwise([*record.nodes, (ends, 0)]):
        inside = _overlap(begin, end, needed)
        spent += count * (end - begin)
        least += count * inside + min(count, schedule.least) * (end - begin - inside)
    return NodeHours(spent / HOUR, least / HOUR)


def _free(at: float, hindered: Iterable[Span]) -> float:
    """Return when a change is possible, from then on."""
    return next((end for begin, end in hindered if begin <= at < end), at)


def _overlap(begin: float, end: float, spans: Iterable[Span]) -> float:
    return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in spans)
