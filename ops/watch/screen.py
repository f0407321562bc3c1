"""Draw a status on one screen of 80 columns."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from config.facts.support import Phase
from ops.readiness.wait import progress
from ops.readiness.wait import table as items_table
from ops.watch.status import UNSEEN, Status

NODES_SHOWN: Final = 8
"""Nodes without trouble are listed up to this number; those with trouble always are."""

_TITLES: Final = {"ray_clusters": "RayClusters", "slurm_nodes": "nodes", "slurm_health": "Slurm's health"}
_COMPLETE: Final = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}
_CURRENT: Final = {"", "UpToDate"}

Draw = Callable[[Any], Iterable[RenderableType]]


def screen(status: Status, elapsed: str = "") -> Group:
    """Return the whole screen; `elapsed` is the time since the command started, if it keeps watching."""
    parts: list[RenderableType] = []
    if status.obstacle:
        parts.append(_unseen("what `ops wait` waits for", status.obstacle))
    else:
        parts.append(items_table(status.items, progress(status.items)))
    for name, section in status.sections.items():
        draw = _SECTIONS[name]
        title = _TITLES.get(name, name.replace("_", " "))
        if isinstance(section, Mapping) and UNSEEN in section:
            # The obstacle of the whole is shown once.
            if section[UNSEEN] != status.obstacle:
                parts.append(_unseen(title, section[UNSEEN]))
        else:
            parts += _titled(title, list(draw(section)))
    parts.append(Text(f"\n{status.time:%Y-%m-%d %H:%M:%S} UTC{elapsed}", style="dim"))
    return Group(*parts)


def _titled(title: str, drawn: list[RenderableType]) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), *drawn] if drawn else []


def _unseen(title: str, reason: str) -> Text:
    return Text.from_markup(f"\n[bold]{title}[/]\n[yellow]cannot be read: {escape(reason)}[/]")


def _table(rows: Iterable[tuple[str, ...]]) -> Table:
    drawn = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        while len(drawn.columns) < len(row):
            drawn.add_column(overflow="fold")
        drawn.add_row(*(escape(cell) for cell in row))
    return drawn


def _stacks(stacks: list[dict[str, str]]) -> Iterable[RenderableType]:
    others = [stack for stack in stacks if stack["state"] not in _COMPLETE]
    if others:
        yield _table((stack["name"], stack["state"], stack["reason"]) for stack in others)
    if complete := len(stacks) - len(others):
        yield Text(f"{complete} of {len(stacks)} complete")


def _instance_groups(groups: list[dict[str, Any]]) -> Iterable[RenderableType]:
    if groups:
        yield _table(_group(group) for group in groups)


def _group(group: Mapping[str, Any]) -> tuple[str, ...]:
    software = group["software"] if group["software"] not in _CURRENT else ""
    notes = [group["capacity"], software and f"software: {software}"]
    return group["name"], f"{group['count']}/{group['target']}", group["type"], "; ".join(filter(None, notes))


def _nodes(nodes: list[dict[str, Any]]) -> Iterable[RenderableType]:
    troubled = [node for node in nodes if _trouble(node)]
    healthy = [node for node in nodes if not _trouble(node)]
    shown = [*troubled, *healthy[:NODES_SHOWN]]
    if shown:
        yield _table(
            (node["instance"], node["group"], _trouble(node) or node["health"] or node["status"], _checked(node))
            for node in shown
        )
    if more := len(nodes) - len(shown):
        yield Text(f"and {more} more that take pods: `ops node list`")


def _slurm_nodes(nodes: list[dict[str, str]]) -> Iterable[RenderableType]:
    running = [node for node in nodes if node["status"] == "Running"]
    others = [node for node in nodes if node["status"] != "Running"]
    shown = [*others, *running[:NODES_SHOWN]]
    if shown:
        yield _table(
            (node["name"] or node["instance"], node["group"], node["role"], node["message"] or node["status"])
            for node in shown
        )
    if more := len(nodes) - len(shown):
        yield Text(f"and {more} more that run: `ops node list`")


def _slurm_health(components: list[dict[str, str]]) -> Iterable[RenderableType]:
    if components:
        yield _table((each["component"], each["status"], each["reason"], each["time"]) for each in components)


def _trouble(node: Mapping[str, Any]) -> str:
    return str(node["hindrance"] if node["status"] == "Running" else node["status"])


def _checked(node: Mapping[str, Any]) -> str:
    return f"deep check: {node['deep_check']}" if node["deep_check"] else ""


def _ray_clusters(clusters: list[dict[str, Any]]) -> Iterable[RenderableType]:
    for cluster in clusters:
        head = f"head {cluster['head']}" if cluster["head"] else "no running head"
        workers = f"{cluster['workers']}/{cluster['wanted']} workers"
        yield Text(", ".join([f"{cluster['name']} {cluster['state']}", workers, head, *cluster["outdated"]]))
        if cluster["image"]:
            yield Text(f"  image {cluster['image']}")


def _pending_pods(pods: list[dict[str, str]]) -> Iterable[RenderableType]:
    if pods:
        yield _table((pod["pod"], pod["reason"]) for pod in pods)


def _jobs(jobs: list[dict[str, Any]]) -> Iterable[RenderableType]:
    if jobs:
        yield _table((job["name"] or "?", job["ray_cluster"], job["state"]) for job in jobs)


def _file_system(found: Mapping[str, Any]) -> Iterable[RenderableType]:
    if found["capacity_gib"] is None:
        yield Text(found["state"])
        return
    used = "use unknown (CloudWatch has no figure)" if found["used_gib"] is None else f"{found['used_gib']:,} GiB used"
    yield Text(f"{found['id']} {found['state']}, {found['capacity_gib']:,} GiB, {used}")


def _support(found: list[Mapping[str, Any]]) -> Iterable[RenderableType]:
    for each in found:
        when = f" {'since' if each['phase'] == Phase.ENDED else 'until'} {each['until']}" if each["until"] else ""
        flaws = "".join(f", {flaw}" for flaw in each["flaws"])
        yield Text(f"{each['component']} {each['version']}: {each['phase']}{when}{flaws}")


def _cost(cost: Mapping[str, Any]) -> Iterable[RenderableType]:
    without = f"; without a price: {', '.join(cost['without_price'])}" if cost["without_price"] else ""
    yield Text(f"about US$ {cost['usd_per_hour']:,.2f} per hour for what the environment asks{without}")


_SECTIONS: Final[Mapping[str, Draw]] = {
    "stacks": _stacks,
    "instance_groups": _instance_groups,
    "nodes": _nodes,
    "slurm_nodes": _slurm_nodes,
    "slurm_health": _slurm_health,
    "ray_clusters": _ray_clusters,
    "pending_pods": _pending_pods,
    "jobs": _jobs,
    "file_system": _file_system,
    "support": _support,
    "cost": _cost,
}
