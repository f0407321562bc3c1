"""Where a rehearsal's time went: every second is counted once, for the first of the parts that was at work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Span = tuple[float, float]
"""Begin and end, in seconds since the epoch."""
Journal = Sequence[Mapping[str, Any]]

BUILD: Final = "building Kubernetes and KubeRay"
CONTROL_PLANE: Final = "starting control planes"
FUNCTIONS: Final = "functions"
SERVICES: Final = "services, with their simulated waits"
SYNTHESIS: Final = "CDK CLI: synthesis"
CLI: Final = "CDK CLI: start, assets, polls"
REST: Final = "the rest: account, ops, Kubernetes, checks"

PARTS: Final = (BUILD, CONTROL_PLANE, FUNCTIONS, SERVICES, SYNTHESIS, CLI, REST)
"""Of several parts that are at work at the same time, the first one is given the time."""


@dataclass
class Spans:
    """What the rehearsal itself saw: builds, runs of the CDK CLI, and the time in these until the app had ended."""

    builds: list[Span] = field(default_factory=list)
    commands: list[Span] = field(default_factory=list)
    syntheses: list[Span] = field(default_factory=list)


def breakdown(whole: Span, seen: Spans, journal: Journal) -> dict[str, float]:
    """Return the seconds of each of PARTS, which together are as long as `whole`."""
    spans: dict[str, Iterable[Span]] = {
        BUILD: seen.builds,
        CONTROL_PLANE: _control_planes(journal),
        FUNCTIONS: _invocations(journal),
        SERVICES: _actions(journal),
        SYNTHESIS: seen.syntheses,
        CLI: seen.commands,
        REST: [whole],
    }
    found: dict[str, float] = {}
    covered: list[Span] = []
    for part in PARTS:
        before = _length(covered)
        covered = _joined([*covered, *_within(whole, spans[part])])
        found[part] = _length(covered) - before
    return found


def _control_planes(journal: Journal) -> Iterable[Span]:
    started = (entry for entry in journal if entry["kind"] == "eks" and entry["action"] == "control plane started")
    return [(entry["time"] - entry["seconds"], entry["time"]) for entry in started]


def _invocations(journal: Journal) -> Iterable[Span]:
    """Also a call that found no way out of its VPC is an entry of this kind: it has no time."""
    ended = (entry for entry in journal if entry["kind"] == "lambda" and "seconds" in entry)
    return [(entry["time"] - entry["seconds"], entry["time"]) for entry in ended]


def _actions(journal: Journal) -> Iterable[Span]:
    return [(entry["start"], entry["end"]) for entry in journal if entry["kind"] == "cfn"]


def _within(whole: Span, spans: Iterable[Span]) -> list[Span]:
    clipped = [(max(begin, whole[0]), min(end, whole[1])) for begin, end in spans]
    return [(begin, end) for begin, end in clipped if begin < end]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap or touch."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)
