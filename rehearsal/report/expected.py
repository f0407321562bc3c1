"""Estimate how long a deployment and its destroy take on AWS: their order, with the minutes of a published table.

Within a stack, CloudFormation creates each resource as soon as those that it waits for are complete. The CDK CLI starts
a stack when its upstream stacks are complete and one of its few places is free. A destroy goes the other way.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from config.estimates import creation
from config.estimates.creation import CreationTime
from embedded_account.cloudformation.templates.dependencies import reverse
from embedded_account.cloudformation.templates.intrinsics import references
from rehearsal.report.timeline import Band, Bar, kind

_SHOWN_MINUTES: Final = 0.5
"""Shorter steps of the critical path are counted together."""

Minutes = Callable[[str], CreationTime]
"""Returns the minutes of a resource type."""


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

    def line(self, what: str = "on AWS about") -> str:
        """Return `what`, the expected time, its range and the critical path."""
        low, typical, high = (round(each.minutes) for each in (self.low, self.typical, self.high))
        slow = [bar for bar in self.typical.critical if bar.length >= _SHOWN_MINUTES]
        path = [f"{kind(bar.type)} {bar.length:.0f}" for bar in slow if round(bar.length)]
        rest = self.typical.minutes - sum(bar.length for bar in slow if round(bar.length))
        return f"{what} {typical} minutes ({low} to {high}): {' → '.join([*path, f'all else {rest:.0f}'])}"


def later_line(*, ray: bool) -> str:
    """Return what a deployment does not wait for, with its minutes."""
    rows = creation.later(ray=ray).items()
    return "not waited for: " + ", ".join(f"{name} {m.typical:.0f} ({m.low:.0f} to {m.high:.0f})" for name, m in rows)


def upstream(assembly: Path) -> dict[str, tuple[str, ...]]:
    """Return the stacks that each stack of the cloud assembly depends on; empty if there is none."""
    artifacts = _stacks(assembly)
    names = {key: artifact["properties"].get("stackName", key) for key, artifact in artifacts.items()}
    return {
        name: tuple(names[each] for each in artifacts[key].get("dependencies", ()) if each in names)
        for key, name in names.items()
    }


def _stacks(assembly: Path) -> dict[str, Any]:
    manifest = assembly / "manifest.json"
    artifacts = json.loads(manifest.read_text())["artifacts"] if manifest.exists() else {}
    return {key: artifact for key, artifact in artifacts.items() if artifact["type"] == "aws:cloudformation:stack"}


def declared(assembly: Path) -> list[Band]:
    """Return the resources of the cloud assembly's stacks, with what each waits for; nothing has a length yet."""
    found = []
    for key, artifact in _stacks(assembly).items():
        template = json.loads((assembly / artifact["properties"]["templateFile"]).read_text())
        found.append(Band(artifact["properties"].get("stackName", key), list(_declared(template["Resources"]))))
    return found


def _declared(resources: Mapping[str, Any]) -> Iterator[Bar]:
    vpcs = {
        name: resource["Properties"]["VpcConfig"]
        for name, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Function" and "VpcConfig" in resource["Properties"]
    }
    for name, resource in resources.items():
        named = resource.get("DependsOn", [])
        # Of each Fn::If both branches: the assembly does not say which one is taken.
        referred = (each.name for each in references(resource.get("Properties"), lambda choice: choice[1:]))
        awaited = {*([named] if isinstance(named, str) else named), *referred}
        # Functions with the same subnets and groups share interfaces, which go with the function that is deleted last.
        last = name in vpcs and not any(vpcs.get(other) == vpcs[name] for other in awaited)
        type = creation.FUNCTION_IN_VPC if last else resource["Type"]
        yield Bar(name, type, 0, 0, tuple(sorted(awaited & resources.keys())), False)


def expect(bands: Sequence[Band], upstream: Mapping[str, Collection[str]], *, places: int) -> Expectation:
    """Return what the bands take on AWS if the CLI deploys at most `places` stacks at a time."""
    return _expect(bands, upstream, creation.of_type, places=places)


def expect_destroy(bands: Sequence[Band], upstream: Mapping[str, Collection[str]], *, places: int) -> Expectation:
    """Return what the destroy of the same bands takes: everything waits for what depended on it."""
    users = reverse(upstream)
    downstream = {name: users[name] for name in reversed([*upstream])}
    return _expect([_reversed(band) for band in bands], downstream, creation.of_deletion, places=places)


def _reversed(band: Band) -> Band:
    users = reverse({bar.name: bar.waited_for for bar in band.bars})
    return Band(band.stack, [replace(bar, waited_for=tuple(sorted(users[bar.name]))) for bar in band.bars])


def _expect(
    bands: Sequence[Band], upstream: Mapping[str, Collection[str]], minutes: Minutes, *, places: int
) -> Expectation:
    low, typical, high = (
        _schedule(bands, upstream, minutes, places=places, column=column) for column in ("low", "typical", "high")
    )
    unlimited = _schedule(bands, upstream, minutes, places=len(bands), column="typical")
    return Expectation(low, typical, high, unlimited.minutes)


def _schedule(
    bands: Sequence[Band], upstream: Mapping[str, Collection[str]], minutes: Minutes, *, places: int, column: str
) -> Forecast:
    """Schedule forward: of the stacks that may start, the one that the assembly or the journal lists first."""
    overhead = _of(creation.of_stack(), column)
    lengths = {band.stack: list(_resources(band, minutes, overhead, column)) for band in bands}
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


def _resources(band: Band, minutes: Minutes, overhead: float, column: str) -> Iterator[Bar]:
    """Return the stack's resources in minutes since the stack began."""
    bars = {bar.name: bar for bar in band.bars}
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            ends[name] = start(name) + _of(minutes(bars[name].type), column)
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
