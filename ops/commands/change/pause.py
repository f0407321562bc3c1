"""Less cost while nobody trains: `ops pause` and `ops resume`."""

from typing import Annotated

import typer

from ops.cli import EnvName, app, load, say
from ops.commands.change.running import changing, require_one, wait
from ops.durations import UNTIL_READY, Duration, Interval, Timeout
from ops.options import Checkpoint, DryRun, Force, Yes


@app.command()
def pause(
    env: EnvName,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    checkpoint: Checkpoint = False,
    timeout: Timeout = Duration(3600),
) -> None:
    """Suspend the RayClusters, drain all HyperPod nodes and remove them; print what still costs.

    Everything else stays: the cluster itself, system nodes, the file system.
    Local disks of the nodes are lost. Rerun the command to resume after an
    interruption, or revert it with `ops resume`.

    A deployment that does not change the HyperPod cluster keeps the pause.
    One that changes it sets the counts back, so resume before it.

    Exit codes:
    - 0: no HyperPod node is left
    - 1: refused, or not done in time
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops pause --env dev --dry-run`
    - `ops pause --env dev`
    """
    from ops.change import confirm  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`

    require_one(checkpoint=checkpoint, force=force)
    environment = load(env)
    with changing(f"rerun `ops pause --env {env}`, or revert it with `ops resume --env {env}`"):
        confirm.pause(
            environment, say, yes=yes, dry_run=dry_run, force=force, checkpoint=checkpoint, timeout=timeout.seconds
        )


@app.command()
def resume(
    env: EnvName,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until everything is ready.")] = False,
    timeout: Timeout = UNTIL_READY,
    interval: Interval = Duration(15),
) -> None:
    """Revert `ops pause`: raise the instance groups to the file's counts, resume the RayClusters.

    It then waits as `ops wait` does. It lowers no count, and leaves
    RayClusters alone that `ops pause` did not suspend. AWS may have no
    capacity left for the nodes: a pause gives them back.

    Exit codes:
    - 0: ready; with `--no-wait`, begun
    - 1: refused, or not ready in time
    - 2: bad input or no access
    - 3: failed; waiting will not help
    - 130: interrupted

    Examples:
    - `ops resume --env dev`
    - `ops resume --env dev --no-wait`
    """
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    with changing(f"rerun `ops resume --env {env}`"):
        confirm.resume(environment, say, yes=yes, dry_run=dry_run)
    if dry_run:
        return
    if no_wait:
        say(f"`ops wait --env {env}` shows when everything is ready")
    else:
        wait(env=env, timeout=timeout, interval=interval)
