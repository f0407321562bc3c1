"""Draw the first deployment's resources as bars, with the chain that decides its time.

The page is one HTML file without scripts or external references.
"""

import html
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ops.review.assembly import stable

NAME: Final = "timeline.html"

_WIDTH: Final = 1120
_LABEL: Final = 360
_LABEL_CHARACTERS: Final = 50
_ROW: Final = 18
_AXIS: Final = 20
"""The height of the minutes above the bars."""
_TICKS: Final = 12
"""The largest number of labels, so that they do not touch."""
_SHORTEST_MINUTES: Final = 0.2
"""Quicker resources are counted but not drawn."""


@dataclass(frozen=True)
class Bar:
    """One resource's creation since the first began: in the journal's seconds, or in AWS's minutes (expected.py)."""

    name: str
    type: str
    start: float
    end: float
    waited_for: tuple[str, ...]
    failed: bool

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass
class Band:
    """One stack's creation."""

    stack: str
    bars: list[Bar] = field(default_factory=list)

    @property
    def start(self) -> float:
        return min(bar.start for bar in self.bars)

    @property
    def end(self) -> float:
        return max(bar.end for bar in self.bars)

    def deciding(self) -> list[Bar]:
        """Return the chain that decided the stack's end: the last resource, what it waited for longest, and so on."""
        by_name = {bar.name: bar for bar in self.bars}
        chain = [max(self.bars, key=lambda bar: bar.end)]
        while awaited := [by_name[name] for name in chain[-1].waited_for if name in by_name]:
            chain.append(max(awaited, key=lambda bar: bar.end))
        return chain[::-1]


def bands(journal: Iterable[Mapping[str, Any]]) -> list[Band]:
    """Return the stacks in the order in which their creation began; only each resource's first creation counts."""
    entries = [e for e in journal if e["kind"] == "cfn" and e["action"] == "CREATE" and "CDKToolkit" not in e["stack"]]
    if not entries:
        return []
    origin = min(entry["start"] for entry in entries)
    found: dict[str, Band] = {}
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        key = entry["stack"], entry["logical_id"]
        if key in seen:
            continue
        seen.add(key)
        found.setdefault(entry["stack"], Band(entry["stack"])).bars.append(
            Bar(
                entry["logical_id"],
                entry["type"],
                entry["start"] - origin,
                entry["end"] - origin,
                tuple(entry["waited_for"]),
                entry["status"].endswith("FAILED"),
            )
        )
    return sorted(found.values(), key=lambda band: band.start)


def lines(drawn: Sequence[Band]) -> list[str]:
    """Return one line per stack for the terminal: when it ran, and the chain that decided its time."""
    entries = []
    for band in drawn:
        chain = " → ".join(
            f"{kind(bar.type)} {bar.length:.1f}" for bar in band.deciding() if bar.length >= _SHORTEST_MINUTES
        )
        entries.append(f"{band.stack}: {band.start:.0f} to {band.end:.0f} min; decided by {chain}")
    return entries


def write(drawn: Sequence[Band], critical: Collection[Bar], title: str, path: Path) -> Path:
    """Write the page, with the critical path marked; return its path."""
    scale = (_WIDTH - _LABEL - 60) / max(band.end for band in drawn)
    ticks = _ticks(max(band.end for band in drawn))
    body = "\n".join(_band(band, critical, scale, ticks) for band in drawn)
    path.write_text(
        f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>
<style>
body {{ font: 13px/1.4 system-ui, sans-serif; margin: 2rem; color: #1b1f24; background: #fff }}
h1 {{ font-size: 1.3rem }} h2 {{ font-size: 1rem; margin: 1.4rem 0 .3rem }} svg {{ display: block }}
text {{ font-size: 11px; fill: #1b1f24 }} .t {{ fill: #57606a }} .w {{ fill: #9bb8dd }} .d {{ fill: #d9822b }}
.f {{ fill: #c93c37 }} line {{ stroke: #d8dee4 }} p {{ max-width: 62em; color: #57606a; margin: .2rem 0 }}
</style>
<h1>{html.escape(title)}</h1>
<p>Each bar is the creation of one resource, with the minutes that AWS typically takes; the axis shows minutes since the
deployment begins and is the same for all stacks. The number beside a bar is its duration. Orange: the critical path,
which decides the deployment's time. Hold the pointer over a bar to see what it waits for.</p>
{body}
</html>
"""
    )
    return path


def _ticks(end: float) -> list[int]:
    """Return whole minutes from 0 to the end, at round intervals."""
    steps = (digit * 10**power for power in range(6) for digit in (1, 2, 5))
    return list(range(0, int(end) + 1, next(step for step in steps if end / step < _TICKS)))


def _axis(ticks: Sequence[int], scale: float, height: int) -> str:
    drawn = []
    for minute in ticks:
        x = _LABEL + minute * scale
        drawn.append(f'<line x1="{x:.1f}" y1="{_AXIS - 4}" x2="{x:.1f}" y2="{height}"/>')
        drawn.append(f'<text x="{x:.1f}" y="{_AXIS - 8}" text-anchor="middle" class="t">{minute} min</text>')
    return "\n".join(drawn)


def _band(band: Band, critical: Collection[Bar], scale: float, ticks: Sequence[int]) -> str:
    deciding = {bar for bar in band.bars if bar in critical}
    shown = sorted(
        (b for b in band.bars if b.length >= _SHORTEST_MINUTES or b in deciding), key=lambda b: (b.start, b.end)
    )
    rows = "\n".join(_bar(bar, row, scale, bar in deciding) for row, bar in enumerate(shown))
    quick = len(band.bars) - len(shown)
    note = f"; {quick} quicker than {_SHORTEST_MINUTES} min not drawn" if quick else ""
    facts = f"{len(band.bars)} resources, {band.start:.1f} to {band.end:.1f} min{note}"
    height = _AXIS + len(shown) * _ROW + 4
    return (
        f"<h2>{html.escape(band.stack)}</h2><p>{facts}</p>"
        f'<svg width="{_WIDTH}" height="{height}" role="img" aria-label="{html.escape(band.stack)}">'
        f"\n{_axis(ticks, scale, height)}\n{rows}\n</svg>"
    )


def _bar(bar: Bar, row: int, scale: float, deciding: bool) -> str:
    y = _AXIS + row * _ROW
    x, width = _LABEL + bar.start * scale, max(2.0, bar.length * scale)
    style = "f" if bar.failed else "d" if deciding else "w"
    awaited = ", ".join(bar.waited_for) or "nothing"
    tip = html.escape(f"{bar.type} {bar.name}\n{bar.length:.2f} min; waits for {awaited}")
    name = stable(bar.name)
    label = html.escape(f"{kind(bar.type)}  {name}"[:_LABEL_CHARACTERS])
    return (
        f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end" class="t">{label}</text>'
        f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2" class="{style}">'
        f"<title>{tip}</title></rect>"
        f'<text x="{x + width + 4:.1f}" y="{y + 13}">{bar.length:.1f}</text>'
    )


def kind(resource_type: str) -> str:
    """Return a type's short name: `EC2 Subnet` for `AWS::EC2::Subnet`, `KubernetesManifest` for CDK's custom type."""
    return " ".join(resource_type.removeprefix("AWS::").split("::")[-2:]).replace("Custom AWSCDK-EKS-", "")
