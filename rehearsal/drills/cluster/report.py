"""Show a person the results of drills: two timelines side by side, and the times until RayClusters were complete."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.markup import escape
from rich.table import Table

from rehearsal.drills.cluster.auditor import ADMINISTRATOR, Deleters
from rehearsal.drills.cluster.subject import HERE, STOCK, Recovery, Subject
from rehearsal.drills.cluster.world import GONE, RUNNING, TERMINATING, Happening

EKS_DETECTION_SECONDS: Final = (50, 60)
"""After how many seconds EKS notices a silent node; nobody can change it there.

The node-monitor-grace-period is 50 s since Kubernetes 1.32 (kubernetes#126287).
"""

# The same change of several pods within one second is one line.
_TOGETHER_SECONDS: Final = 1.0
_SHOWN_PHASES: Final = (RUNNING, TERMINATING, GONE, "Failed", "Succeeded")


@dataclass(frozen=True)
class TimelineLine:
    """One line of a timeline: `column` is HERE or STOCK, or empty for what is done to both."""

    at: float
    column: str
    text: str


def lines(happenings: Sequence[Happening], subjects: Sequence[Subject], deleters: Deleters) -> Iterator[TimelineLine]:
    """Yield in words what happened to the pods and nodes of the subjects."""
    for subject in subjects:
        pods = [each for each in happenings if subject.owns(each) and each.after in _SHOWN_PHASES]
        for alike in _together(pods):
            yield TimelineLine(
                alike[-1].at, subject.title, f"{_named(alike)} {_of_pods(alike[0], len(alike), deleters)}"
            )
        nodes = [each for each in happenings if each.kind == "node" and subject.has_node(each) and each.before]
        for alike in _together(nodes):
            yield TimelineLine(alike[-1].at, subject.title, f"{_named(alike)}: {alike[0].after}")


def timeline(entries: Sequence[TimelineLine], began: float) -> Table:
    """Return a table of the lines, in seconds since `began`."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    drawn.add_column("s", justify="right", no_wrap=True)
    for title in (HERE, STOCK):
        drawn.add_column(title, overflow="fold", ratio=1)
    for line in sorted(entries, key=lambda line: line.at):
        texts = [escape(line.text) if line.column == title else "" for title in (HERE, STOCK)]
        if not line.column:
            texts = [f"[bold]{escape(line.text)}[/]", "[dim]the same[/]"]
        drawn.add_row(f"{line.at - began:.1f}", *texts)
    return drawn


def summary(recoveries: Sequence[Recovery], detection: float) -> Table:
    """Return a table of each drill's time until complete, beside the promise and stock KubeRay's time.

    `detection` is after how many seconds a silent node is noticed here.
    """
    least, most = EKS_DETECTION_SECONDS
    caption = (
        f"A silent node is noticed (its Ready condition leaves True) {detection:.0f} s after its last heartbeat here, "
        f"{least} to {most} s on EKS. The times begin at that moment."
    )
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Complete again after", caption=caption)
    drawn.title_justify = drawn.caption_justify = "left"
    drawn.add_column("drill", no_wrap=True)
    for column in ("promised", HERE, "after the last heartbeat"):
        drawn.add_column(column, justify="right")
    drawn.add_column(STOCK, overflow="fold")
    by_drill: dict[str, dict[str, Recovery]] = {}
    for each in recoveries:
        by_drill.setdefault(each.drill, {})[each.subject.title] = each
    for drill, of in by_drill.items():
        own, whole = of[HERE], ""
        if own.detection and own.seconds is not None:
            on_eks = f"EKS {own.seconds + least:.0f}-{own.seconds + most:.0f} s"
            whole = f"{own.seconds + detection:.0f} s; {on_eks}"
        style = "green" if own.kept else "bold red"
        promised = "" if own.limit is None else f"{own.limit:.0f} s"
        drawn.add_row(drill, promised, f"[{style}]{own.outcome()}[/]", whole, of[STOCK].outcome())
    return drawn


def _together(happenings: Sequence[Happening]) -> Iterator[list[Happening]]:
    """Yield groups of the same change of several objects within `_TOGETHER_SECONDS`."""
    rest = list(happenings)
    while rest:
        first = rest[0]
        alike = [each for each in rest if _is_alike(first, each)]
        rest = [each for each in rest if each not in alike]
        yield alike


def _is_alike(first: Happening, other: Happening) -> bool:
    return (first.after, _role(first)) == (other.after, _role(other)) and other.at - first.at < _TOGETHER_SECONDS


def _role(happening: Happening) -> str:
    return "node" if happening.kind == "node" else str(happening.labels.get("ray.io/node-type", "pod"))


def _named(alike: Sequence[Happening]) -> str:
    [first, *others] = alike
    if others:
        return f"{len(alike)} {_role(first)}s"
    return f"node {first.name}" if first.kind == "node" else f"{_role(first)} {first.name.rpartition('-')[2]}"


def _of_pods(first: Happening, count: int, deleters: Deleters) -> str:
    place = f" on {first.node}" if first.after == RUNNING and count == 1 else ""
    return f"{first.after}{place}{_by(first.after, deleters(first))}"


def _by(state: str, users: Sequence[str]) -> str:
    """Return whose action it was, if that is informative: here kubelets and kubectl use the administrator's account."""
    if state == TERMINATING and users:
        return f": {'by hand' if users[0] == ADMINISTRATOR else users[0]}"
    if state == GONE and len(users) > 1:
        return ": its kubelet" if users[-1] == ADMINISTRATOR else f": forced by {users[-1]}"
    return ""
