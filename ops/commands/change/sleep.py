"""An instance group that may sleep, by hand: `ops sleep` and `ops wake`."""

from typing import Annotated

import typer

from ops import completion
from ops.cli import EnvName, app, load, say
from ops.commands.change.running import changing
from ops.durations import Duration, at_least
from ops.options import DryRun, Yes

_Group = Annotated[
    str,
    typer.Argument(
        metavar="GROUP", autocompletion=completion.instance_groups, help="HyperPod instance group with `sleep`."
    ),
]


@app.command()
def sleep(group: _Group, env: EnvName, *, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Let an instance group sleep now, without waiting for its `after`, and within its `hours` too.

    Its Ray workers end, then its nodes go, within minutes. The request ends
    when something uses the group, which wakes it, or when its `hours` next
    begin. It takes nothing from a run, a notebook or any other user.

    Exit codes:
    - 0: requested; `ops status` shows the group
    - 1: refused, such as while a job runs
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops sleep worker-group-1 --env dev --dry-run`
    - `ops sleep worker-group-1 --env dev`
    """
    from ops.change import confirm  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`

    environment = load(env)
    with changing(f"rerun `ops sleep {group} --env {env}`"):
        confirm.sleep(environment, group, say, yes=yes, dry_run=dry_run)


@app.command()
def wake(
    group: _Group,
    env: EnvName,
    for_: Annotated[
        Duration | None,
        typer.Option(
            "--for",
            parser=at_least(Duration(60)),
            metavar="DURATION",
            help="How long it stays awake, used or not. Default: the group's `after`.",
        ),
    ] = None,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Wake an instance group before something uses it, and keep it awake for a time.

    All of its nodes and Ray workers come back, in minutes. After that time it
    sleeps as usual: once nothing has used it for its `after`. A run wakes
    what it needs by itself.

    Exit codes:
    - 0: requested; `ops wait` waits for the nodes
    - 1: refused
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops wake worker-group-1 --env dev --dry-run`
    - `ops wake worker-group-1 --env dev --for 2h`
    """
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    with changing(f"rerun `ops wake {group} --env {env}`"):
        confirm.wake(environment, group, for_.seconds if for_ else None, say, yes=yes, dry_run=dry_run)
