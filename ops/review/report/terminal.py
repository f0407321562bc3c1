"""Draw a verdict for a terminal: the table, what the gate stops, and the tables of each environment."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ops.review.model import Change, ComparedRow, EnvironmentVerdict, Verdict
from ops.review.report import outcome, summary, texts

_STYLES: Final = {"severe": "bold red", "attention": "bold yellow", "mild": "green", "nothing": "dim"}


def draw(verdict: Verdict) -> Group:
    """Return the drawing. It names the number of differences, which other formats show."""
    return Group(*_parts(verdict))


def effects(verdict: Verdict) -> Group:
    """Return the first part of the drawing: what happens, and who must act."""
    return Group(*_effects(verdict))


def _effects(verdict: Verdict) -> Iterator[RenderableType]:
    yield Text(texts.line(summary.headline(verdict)), style="bold")
    yield from (Text(f"warning: {texts.line(note)}", style="yellow") for note in verdict.notes)
    yield from (Text(f"{subject}: {texts.line(answer)}") for subject, answer in outcome.answers(verdict))
    yield ""
    yield _table(verdict)
    yield from (Text(texts.line(line), style="dim") for line in summary.below(verdict))


def _parts(verdict: Verdict) -> Iterator[RenderableType]:
    yield from _effects(verdict)
    for file, lines in summary.approvals(verdict):
        yield from _gate(f"A reviewer who accepts what needs an approval adds to {file}, under approvals:", lines)
    yield from _gate("Confirmed already:", _lines(summary.confirmed(verdict), summary.is_confirmed))
    yield from _gate("Owners must read:", [f"{kind}: {', '.join(files)}" for kind, files in summary.content(verdict)])
    for environment in verdict.environments:
        yield from _details(environment)
    if number := len(verdict.content) + sum(len(each.differences) for each in verdict.environments):
        yield ""
        them = "1 difference: show it" if number == 1 else f"{number} differences: show them"
        yield Text(f"{them} with --format markdown, or --out review.html", style="dim")


def _lines(changes: Iterable[tuple[str, Change]], say: Callable[[str, Change], str]) -> list[str]:
    return [texts.line(say(*each)) for each in changes]


def _gate(title: str, lines: Sequence[str]) -> Iterator[RenderableType]:
    if lines:
        yield ""
        yield Text(title, style="bold")
        yield from (Text(f"  {texts.visible(line)}") for line in lines)


def _table(verdict: Verdict) -> Table:
    drawn = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=False)
    for name in summary.HEADER:
        drawn.add_column(name, overflow="fold")
    for row in summary.rows(verdict):
        if row.first and drawn.row_count:
            drawn.add_row()
        change = f"{texts.line(row.title)}: {texts.line(row.what)}" if row.what else texts.line(row.title)
        drawn.add_row(
            Text(row.environment if row.first else "", style="bold"),
            Text(change),
            _happens(row),
            Text("\n".join(map(texts.line, summary.acts(row)))),
        )
    return drawn


def _happens(row: summary.TableRow) -> Text:
    if row.effect is None:
        return Text("\n".join(map(texts.line, row.cost)))
    happens = Text("NEEDS AN APPROVAL: " if row.stops else "", style=_STYLES["severe"])
    happens.append(str(row.effect), style=f"not bold default {_STYLES[summary.severity(row.effect)]}")
    return happens.append(f"\n{texts.line(row.reason)}", style="not bold default") if row.reason else happens


def _details(environment: EnvironmentVerdict) -> Iterator[RenderableType]:
    if environment.groups or environment.ray_clusters or environment.permissions:
        yield ""
        yield Text(environment.name, style="bold underline")
    for title, table in (("instance group", environment.groups), ("RayCluster", environment.ray_clusters)):
        if table:
            yield _before_after(title, table)
    yield from (Text(f"- {texts.line(sentence)}") for sentence in environment.permissions)


def _before_after(title: str, table: Sequence[ComparedRow]) -> Table:
    drawn = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    columns = [name for name in summary.columns(table) if any(summary.cell(row, name)[0] for row in table)]
    for name in (title, *columns):
        drawn.add_column(Text(texts.line(name)), overflow="fold")
    for row in table:
        cells = [summary.cell(row, column) for column in columns]
        shown = [Text(texts.line(value), style="bold yellow" if changed else "") for value, changed in cells]
        drawn.add_row(Text(texts.line(summary.row_name(row))), *shown)
    return drawn
