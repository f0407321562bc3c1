"""Deploy, watch, change and destroy one environment on this machine."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape

import config
from config import EksEnvironment, SlurmEnvironment
from rehearsal import runs
from rehearsal.report import verdict
from rehearsal.run.cdk import CommandError
from rehearsal.run.cluster import TimedOutError
from rehearsal.run.slurm import SlurmRehearsal
from rehearsal.run.steps import Rehearsal, RehearsalError

_CLOCK_SCALE: Final = 1200.0
"""HyperPod checks new nodes for an hour, which takes 3 s: nobody looks meanwhile. Drills look, and are slower."""


def rehearse(
    environment_name: str, console: Console, *, keep: bool, jobs: bool = False, kills: Sequence[float] = ()
) -> int:
    """Run the whole rehearsal; return the exit code (0: everything was as expected).

    With `jobs`, real Ray runs in the pods of a kept rehearsal. `kills` are the seconds after which the first runs of
    `cdk deploy`, and all of `ops destroy` but the last, are killed.
    """
    environment = config.load_any(environment_name)
    rehearsal: Rehearsal | SlurmRehearsal
    match environment:
        case EksEnvironment():
            rehearsal = Rehearsal(environment, console)
        case SlurmEnvironment():
            rehearsal = SlurmRehearsal(environment, console)
    reported = False
    try:
        with rehearsal.watch.interrupting():
            if isinstance(rehearsal, SlurmRehearsal):
                _steps_of_slurm(rehearsal, console, keep=keep, kills=kills)
            else:
                _steps(rehearsal, console, keep=keep, jobs=jobs, kills=kills)
        reported = True
    except (RehearsalError, CommandError, TimedOutError) as failure:
        line = f"[bold red]The rehearsal of {environment_name} failed:[/] {escape(str(failure))}"
        console.print(line, highlight=False, soft_wrap=True)
        return 1
    finally:
        if not (keep and reported):
            rehearsal.supervisor.stop_all(grace=20)
            # A `cdk destroy` outlives its killed `ops destroy`, and asks an account that has ended for minutes.
            runs.end(rehearsal.directory)
        rehearsal.report()
    return 0


def _begin(rehearsal: Rehearsal | SlurmRehearsal, *, keep: bool, jobs: bool = False, kills: Sequence[float]) -> None:
    """Start the account, and deploy the environment into it."""
    rehearsal.make_project()
    if jobs and isinstance(rehearsal, Rehearsal):
        rehearsal.run_jobs()
    rehearsal.begin_synthesis()
    rehearsal.start_account(clock_scale=_CLOCK_SCALE, keep=keep)
    rehearsal.what_exists()
    rehearsal.bootstrap()
    rehearsal.preflight()
    rehearsal.first_deployment(kills)


def _steps(rehearsal: Rehearsal, console: Console, *, keep: bool, jobs: bool, kills: Sequence[float]) -> None:
    """Run the steps in order; with `keep`, stop when the RayClusters are ready."""
    _begin(rehearsal, keep=keep, jobs=jobs, kills=kills)
    rehearsal.nodes_join()
    rehearsal.ops_wait()
    rehearsal.ray_is_ready()
    rehearsal.images_are_copies()
    rehearsal.nothing_drifted()
    if keep:
        rehearsal.timeline()
        rehearsal.print_how_to_watch()
        return
    rehearsal.begin_growth()
    rehearsal.diff_is_clean()
    rehearsal.grow()
    rehearsal.ops_wait()
    rehearsal.ray_is_ready()
    # `_end` destroys and redeploys all that uses a protected environment's data, its ray stack first and last.
    if not rehearsal.environment.protect:
        rehearsal.ray_stack_alone()
        rehearsal.ray_is_ready()
    _end(rehearsal, console, kills=kills)


def _steps_of_slurm(rehearsal: SlurmRehearsal, console: Console, *, keep: bool, kills: Sequence[float]) -> None:
    """Run the steps for a cluster that Slurm orchestrates, in order; with `keep`, stop when its nodes run."""
    _begin(rehearsal, keep=keep, kills=kills)
    rehearsal.nodes_run()
    rehearsal.ops_wait()
    rehearsal.slurm_runs()
    rehearsal.nothing_drifted()
    if keep:
        rehearsal.timeline()
        return
    rehearsal.diff_is_clean()
    rehearsal.roll_back()
    rehearsal.grow()
    rehearsal.ops_wait()
    _end(rehearsal, console, kills=kills)


def _end(rehearsal: Rehearsal | SlurmRehearsal, console: Console, *, kills: Sequence[float]) -> None:
    """Destroy the environment, and show what is left."""
    protected = rehearsal.environment.protect
    if protected:
        rehearsal.lift_protection()
    left = rehearsal.destroy(kills)
    _show_leftovers(rehearsal, console, protected=protected)
    while left:
        left = rehearsal.destroy_again(left)
        _show_leftovers(rehearsal, console, protected=False)
    if protected:
        rehearsal.deployed_again()
        if not isinstance(rehearsal, SlurmRehearsal):
            rehearsal.ray_is_ready()
        rehearsal.destroy_unprotected()
        _show_leftovers(rehearsal, console, protected=False)
    rehearsal.existing_is_untouched()
    rehearsal.timeline()


def _show_leftovers(rehearsal: Rehearsal | SlurmRehearsal, console: Console, *, protected: bool) -> None:
    """Show what is left. Raises RehearsalError if a resource without an owner is left."""
    leftovers = rehearsal.take_inventory(protected)
    verdict.show(console, leftovers, rehearsal.seen, rehearsal.directory / verdict.NAME)
    if not leftovers.clean:
        raise RehearsalError("resources without an owner are left; the table above lists them")
