"""Plays drills one after another and says which promises were kept."""

import time
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import config
from rehearsal.drills.drill import Drill, S
from rehearsal.kubernetes.api import ApiError
from rehearsal.processes import ProcessError
from rehearsal.story.cdk import CommandError
from rehearsal.story.cluster import TimedOutError
from rehearsal.story.steps import RehearsalError

_FAILURES: Final = (RehearsalError, CommandError, TimedOutError, ApiError, ProcessError)


def listing(drills: Sequence[Drill[Any]]) -> Table:
    """What drills there are."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for drill in drills:
        table.add_row(drill.name, drill.promise)
    return table


def perform(drills: Sequence[Drill[Any]], environment_name: str, console: Console) -> int:
    """Play the drills, those of one stage together; return the exit code (0: every promise was kept).

    Raises ProgramEndedError when a program has ended that no drill ended.
    """
    environment = config.load(environment_name)
    stages = dict.fromkeys(drill.stage for drill in drills)
    kept = [_perform([drill for drill in drills if drill.stage is make], make(environment, console)) for make in stages]
    return 0 if all(kept) else 1


def _perform(drills: Sequence[Drill[S]], stage: S) -> bool:
    stage.console.print(f"[bold]Real:[/] {stage.REAL}", highlight=False)
    stage.console.print(f"[bold]Simulated:[/] {stage.SIMULATED}", highlight=False)
    try:
        with stage.watch.interrupting():
            stage.set_up()
            broken = [drill for drill in drills if not play(drill, stage)]
            stage.finish()
    except _FAILURES as failure:
        stage.console.print(f"[bold red]The drills could not begin:[/] {escape(str(failure))}", soft_wrap=True)
        return False
    finally:
        stage.take_down()
    return not broken


def play(drill: Drill[S], stage: S) -> bool:
    """Play one drill and show its timeline and verdict; return whether its promise was kept."""
    console = stage.console
    console.rule(f"drill {drill.name}", align="left")
    console.print(drill.promise, highlight=False)
    started = time.monotonic()
    reason = ""
    try:
        stage.begin(drill.name)
        drill.play(stage)
        stage.end()
    except _FAILURES as failure:
        reason = str(failure)
    console.print("[bold]Timeline[/]")
    stage.show()
    _verdict(stage, drill, reason, time.monotonic() - started)
    return not reason


def _verdict(stage: S, drill: Drill[S], reason: str, seconds: float) -> None:
    kept = "[bold red]✘ promise broken[/]" if reason else "[bold green]✔ promise kept[/]"
    told = f": {escape(reason)}" if reason else ""
    stage.console.print(f"{kept} [bold]{drill.name}[/] in {seconds:.0f} s{told}\n", highlight=False)
