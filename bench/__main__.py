"""`make bench`: syntheses against a minimal app, `ops check`, `ops review`, and the last rehearsals."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from bench import commands, noticing, synthesis
from config.facts import charts_lock
from embedded_account.kubernetes.building import binaries
from rehearsal import stand_ins
from rehearsal.paths import BINARIES, ROOT
from rehearsal.report import figures as report

console = Console(highlight=False)


def main(rounds: int = 5) -> None:
    """Measure each command ROUNDS times in turn after one warm-up."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        charts = {} if charts_lock.all_cached() else _stand_ins(scratch / "charts")
        synthesis.report(console, scratch, charts, rounds)
        commands.report_check(console, scratch, 4 * rounds)
        commands.report_review(console, scratch, charts, rounds)
        noticing.report(console, scratch / "plane")
    _rehearsal()


def _stand_ins(directory: Path) -> dict[str, str]:
    """Stand-in charts for a machine that has not fetched the publishers'; the context that names them."""
    stand_ins.build(directory, binaries.ensure(BINARIES, console.print))
    return {"charts": "stand-in", "stand-in-charts": str(directory)}


def _rehearsal() -> None:
    """Where the time of each environment's last rehearsal went, then its steps, then their CPU time."""
    files = sorted(ROOT.glob(f"runs/*/{report.NAME}"))
    if not files:
        return
    last = {file.parent.name: report.read(file) for file in files}
    console.print(_seconds("last rehearsals: where the time went", {name: each.parts for name, each in last.items()}))
    console.print(_seconds("last rehearsals: steps", {name: each.by_step() for name, each in last.items()}))
    for name, each in last.items():
        console.print(f"CPU seconds of {name}'s last rehearsal, what it kept running apart: {each.cpu:.1f}")


def _seconds(title: str, columns: Mapping[str, Mapping[str, float]]) -> Table:
    """A row for each key, and their sum."""
    table = Table("seconds", title=title, box=None, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right")
    for row in dict.fromkeys(key for column in columns.values() for key in column):
        table.add_row(row, *(f"{column[row]:.1f}" if row in column else "" for column in columns.values()))
    table.add_row("[bold]together[/]", *(f"[bold]{sum(column.values()):.1f}[/]" for column in columns.values()))
    return table


if __name__ == "__main__":
    typer.run(main)
