"""Run drills one after another, and show which promises were kept."""

import time
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import config
from embedded_account.kubernetes.api import KubernetesClientError
from embedded_account.machine.processes import ProcessError
from rehearsal.drills.drill import Drill, S
from rehearsal.run.cdk import CommandError
from rehearsal.run.cluster import TimedOutError
from rehearsal.run.steps import RehearsalError

_FAILURES: Final = (RehearsalError, CommandError, TimedOutError, KubernetesClientError, ProcessError)


def listing(drills: Sequence[Drill[Any]]) -> Table:
    """Return a table of the drills."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for drill in drills:
        table.add_row(drill.name, drill.promise)
    return table


def perform(drills: Sequence[Drill[Any]], environment_name: str, console: Console) -> int:
    """Run the drills, those of one context together; return the exit code (0: every promise was kept).

    Raises ProgramEndedError if a program ended that no drill ended.
    """
    environment = config.load(environment_name)
    contexts = dict.fromkeys(drill.context for drill in drills)
    kept = [
        _perform([drill for drill in drills if drill.context is make], make(environment, console)) for make in contexts
    ]
    return 0 if all(kept) else 1


def _perform(drills: Sequence[Drill[S]], context: S) -> bool:
    context.console.print(f"[bold]Real:[/] {context.REAL}", highlight=False)
    context.console.print(f"[bold]Simulated:[/] {context.SIMULATED}", highlight=False)
    try:
        with context.watch.interrupting():
            context.set_up()
            broken = [drill for drill in drills if not play(drill, context)]
            context.finish()
    except _FAILURES as failure:
        context.console.print(f"[bold red]The drills could not start:[/] {escape(str(failure))}", soft_wrap=True)
        return False
    finally:
        context.take_down()
    return not broken


def play(drill: Drill[S], context: S) -> bool:
    """Run one drill and show its timeline and verdict; return whether its promise was kept."""
    console = context.console
    console.rule(f"drill {drill.name}", align="left")
    console.print(drill.promise, highlight=False)
    started = time.monotonic()
    reason = ""
    try:
        context.begin(drill.name)
        drill.play(context)
        context.end()
    except _FAILURES as failure:
        reason = str(failure)
    console.print("[bold]Timeline[/]")
    context.show()
    _verdict(context, drill, reason, time.monotonic() - started)
    return not reason


def _verdict(context: S, drill: Drill[S], reason: str, seconds: float) -> None:
    kept = "[bold red]✘ promise broken[/]" if reason else "[bold green]✔ promise kept[/]"
    suffix = f": {escape(reason)}" if reason else ""
    context.console.print(f"{kept} [bold]{drill.name}[/] in {seconds:.0f} s{suffix}\n", highlight=False)
