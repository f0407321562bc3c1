"""Plays drills one after another and says which promises were kept."""

import time
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import config
from rehearsal.drills.drill import Drill
from rehearsal.drills.stage import Stage
from rehearsal.story.cdk import CommandFailure
from rehearsal.story.cluster import NotReached
from rehearsal.story.steps import Broken


def listing(drills: Sequence[Drill]) -> Table:
    """What drills there are."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for drill in drills:
        table.add_row(drill.name, drill.promise)
    return table


def perform(drills: Sequence[Drill], environment_name: str, console: Console) -> int:
    """Play the drills in one account; return the exit code (0: every promise was kept)."""
    stage = Stage(config.load(environment_name), console)
    try:
        stage.set_up()
        broken = [drill for drill in drills if not play(drill, stage)]
    except (Broken, CommandFailure) as failure:
        console.print(f"[bold red]The drills could not begin:[/] {escape(str(failure))}", soft_wrap=True)
        return 1
    finally:
        stage.take_down()
    return 1 if broken else 0


def play(drill: Drill, stage: Stage) -> bool:
    """Play one drill and show its timeline and verdict; return whether its promise was kept."""
    console = stage.console
    console.rule(f"drill {drill.name}", align="left")
    console.print(drill.promise, highlight=False)
    stage.restart_clock()
    started = time.monotonic()
    reason = ""
    try:
        drill.play(stage)
    except (Broken, CommandFailure, NotReached) as failure:
        reason = str(failure)
    console.print("[bold]Timeline[/]")
    for line in stage.timeline.lines():
        console.print(f"  {escape(line)}", soft_wrap=True, highlight=False)
    _verdict(console, drill, reason, time.monotonic() - started)
    return not reason


def _verdict(console: Console, drill: Drill, reason: str, seconds: float) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    kept = "[bold red]promise broken[/]" if reason else "[bold green]promise kept[/]"
    table.add_row(f"{drill.name}: {kept}", escape(reason or drill.promise))
    table.add_row("", f"{seconds:.0f} s; real: CDK CLI, CloudFormation's protocol, handlers, Kubernetes, ops;")
    table.add_row("", "simulated: HyperPod and its timing (a minute takes 0.2 s), kubelets, the image build")
    console.print(table)
