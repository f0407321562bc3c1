"""Estimate how long a rehearsed deployment takes on AWS: its order, with the minutes of a published table.

Within a stack, CloudFormation creates each resource as soon as those that it waits for are complete. The CDK CLI starts
a stack when its upstream stacks are complete and one of its few places is free.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from config.estimates import creation
from config.estimates.creation import CreationTime
from rehearsal.report.timeline import Band, Bar, kind

_SHOWN_MINUTES: Final = 0.5
"""Shorter steps of the critical path are counted together."""


@dataclass(frozen=True)
class Forecast:
    """The deployment in minutes since it began."""

    bands: Sequence[Band]
    critical: Sequence[Bar]
    """The chain that decides the end, over all stacks."""

    @property
    def minutes(self) -> float:
        return max(band.end for band in self.bands)


@dataclass(frozen=True)
class Expectation:
    """The minutes of a deployment, and the longest chain of its dependencies, were no stack to wait for a place."""

    low: Forecast
    typical: Forecast
    high: Forecast
    chain: float
    """In typical minutes."""

    def line(self) -> str:
        """Return the expected time, its range and the critical path."""
        low, typical, high = (round(each.minutes) for each in (self.low, self.typical, self.high))
        slow = [bar for bar in self.typical.critical if bar.length >= _SHOWN_MINUTES]
        path = [f"{kind(bar.type)} {bar.length:.0f}" for bar in slow if round(bar.length)]
        rest = self.typical.minutes - sum(bar.length for bar in slow if round(bar.length))
        return f"on AWS about {typical} minutes ({low} to {high}): {' → '.join([*path, f'all else {rest:.0f}'])}"


def later_line(*, ray: bool) -> str:
    """Return what a deployment does not wait for, with its minutes."""
    rows = creation.later(ray=ray).items()
    return "not waited for: " + ", ".join(f"{name} {m.typical:.0f} ({m.low:.0f} to {m.high:.0f})" for name, m in rows)


def upstream(assembly: Path) -> dict[str, tuple[str, ...]]:
    """Return the stacks that each stack of the cloud assembly depends on; empty if there is none."""
    manifest = assembly / "manifest.json"
    if not manifest.exists():
        return {}
    artifacts = json.loads(manifest.read_text())["artifacts"]
    names = {
        key: artifact["properties"].get("stackName", key)
        for key, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    return {
        name: tuple(names[each] for each in artifacts[key].get("dependencies", ()) if each in names)
        for key, name in names.items()
    }


def expect(bands: Sequence[Band], upstream: Mapping[str, Collection[str]], *, places: int) -> Expectation:
    """Return what the journal's bands take on AWS if the CLI deploys at most `places` stacks at a time."""
    low, typical, high = (
        _schedule(bands, upstream, places=places, column=column) for column in ("low", "typical", "high")
    )
    unlimited = _schedule(bands, upstream, places=len(bands), column="typical")
    return Expectation(low, typical, high, unlimited.minutes)


def _schedule(bands: Sequence[Band], upstream: Mapping[str, Collection[str]], *, places: int, column: str) -> Forecast:
    """Schedule forward: of the stacks that may start, the one that the assembly or the journal lists first."""
    overhead = _of(creation.of_stack(), column)
    lengths = {band.stack: list(_resources(band, overhead, column)) for band in bands}
    order = [*(name for name in upstream if name in lengths), *(name for name in lengths if name not in upstream)]
    placed: dict[str, Band] = {}
    # The stack whose end let each stack start.
    freed: dict[str, str] = {}
    while len(placed) < len(order):
        ready = {
            name: [placed[each] for each in upstream.get(name, ()) if each in lengths]
            for name in order
            if name not in placed and all(each in placed for each in upstream.get(name, ()) if each in lengths)
        }
        # The last `places` ends decide when a place is free.
        busiest = sorted(placed.values(), key=lambda band: band.end)
        free = busiest[-places] if len(busiest) >= places else None
        starts = {}
        for name, awaited in ready.items():
            last = max([*awaited, *([free] if free else [])], key=lambda band: band.end, default=None)
            starts[name] = (last.end if last else 0.0, last.stack if last else "")
        name = min(starts, key=lambda each: starts[each][0])
        begin, freed[name] = starts[name]
        bars = [replace(bar, start=bar.start + begin, end=bar.end + begin) for bar in lengths[name]]
        placed[name] = Band(name, bars)
    return Forecast(sorted(placed.values(), key=lambda band: band.start), _critical(placed, freed))


def _resources(band: Band, overhead: float, column: str) -> Iterator[Bar]:
    """Return the stack's resources in minutes since the stack began."""
    bars = {bar.name: bar for bar in band.bars}
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            ends[name] = start(name) + _of(creation.of_type(bars[name].type), column)
        return ends[name]

    def start(name: str) -> float:
        return max((end(each) for each in bars[name].waited_for if each in bars), default=overhead)

    for name, bar in bars.items():
        yield replace(bar, start=start(name), end=end(name))


def _critical(placed: Mapping[str, Band], freed: Mapping[str, str]) -> list[Bar]:
    """Return the chain that decides the end: of the last stack, of the stack that let it start, and so on."""
    stack = max(placed, key=lambda name: placed[name].end)
    chain = placed[stack].deciding()
    while stack := freed[stack]:
        chain = placed[stack].deciding() + chain
    return chain


def _of(minutes: CreationTime, column: str) -> float:
    return float(getattr(minutes, column))
