"""Commands for what runs: looking, waiting, making it smaller, updating its software."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer

from ops.cli import EnvName, app, console, fail, kuberay_app, load, say, show
from ops.readiness.item import Require, State

Timeout = Annotated[float, typer.Option(min=0, help="Minutes until it gives up; a later run goes on.")]
Interval = Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Also when a Ray job runs there, or that cannot be known.")]


@app.command()
def wait(
    env: EnvName = "dev",
    timeout: Timeout = 120,
    interval: Interval = 15,
    require: Annotated[
        Require, typer.Option(help="all: what the environment says. min: min_count and min_replicas. none: a report.")
    ] = Require.ALL,
) -> None:
    """Wait until nodes, image, volume and RayClusters are ready; say why what is not.

    It only looks: stop it at any time, and start it again. Exit codes: 0 ready as required (with `--require none`:
    always, once there is an answer), 1 not ready in time, 2 bad input or no access, 3 failed, which no waiting mends,
    130 interrupted.
    """
    from ops.clients import connect  # noqa: PLC0415 - the AWS SDK would double the start of `ops check`
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.readiness.observe import observe  # noqa: PLC0415
    from ops.readiness.wait import progress, table  # noqa: PLC0415
    from ops.readiness.wait import wait as wait_for_items  # noqa: PLC0415

    environment = load(env)
    again = f"`ops wait --env {env}` goes on where this stopped"
    try:
        with connect(environment) as clients:
            look = partial(observe, environment, clients, require)
            if require is Require.NONE:
                items = look()
                show(table(items, progress(items)))
                return
            items = wait_for_items(look, console, timeout=timeout * 60, interval=interval)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted; {again}", code=130)
    for item in items:
        if item.state is State.FAILED:
            fail(f"{env} does not become ready: {item.kind} {item.name}: {item.detail}. Fix: remove the cause", code=3)
    if missing := [f"{item.kind} {item.name}" for item in items if item.state is not State.READY]:
        fail(f"{env} is not ready after {timeout:g} minutes: {', '.join(missing)}. Fix: {again}", code=1)
    enough = "has what `--require min` asks for" if require is Require.MIN else "is ready"
    console.print(f"[bold green]{env} {enough}[/]", highlight=False)


@app.command()
def status(env: EnvName = "dev") -> None:
    """Show once what `ops wait` waits for. Exit code 1: something is not ready."""
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.readiness.observe import observe  # noqa: PLC0415
    from ops.readiness.wait import progress, table  # noqa: PLC0415

    environment = load(env)
    try:
        with connect(environment) as clients:
            items = observe(environment, clients)
    except UnreachableError as error:
        fail(str(error))
    show(table(items, progress(items)))
    raise typer.Exit(0 if all(item.state is State.READY for item in items) else 1)


@app.command()
def scale(
    group: Annotated[str, typer.Argument(help="HyperPod instance group.")],
    count: Annotated[int, typer.Argument(min=0, help="How many nodes it shall have; fewer than now.")],
    *,
    env: EnvName = "dev",
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    timeout: Timeout = 60,
) -> None:
    """Lower an instance group: drain, then Ray's replicas, then the nodes themselves and with them their count.

    More nodes are the deployment's: raise the count in the environment. An interrupted run is gone on with by the same
    command. Exit codes: 0 done, 1 refused or not done in time, 2 bad input or no access, 130 interrupted.
    """
    from ops.change import confirm  # noqa: PLC0415 - the AWS SDK would double the start of `ops check`

    environment = load(env)
    with _changing(f"`ops scale {group} {count} --env {env}` goes on where this stopped"):
        confirm.scale(environment, group, count, say, yes=yes, dry_run=dry_run, force=force, timeout=timeout * 60)


@app.command()
def rollout(
    cluster: Annotated[
        str | None, typer.Argument(metavar="[RAYCLUSTER]", help="One RayCluster only. Default: all.")
    ] = None,
    *,
    env: EnvName = "dev",
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also when a job runs there, that cannot be known, or the image is missing.")
    ] = False,
    timeout: Timeout = 60,
) -> None:
    """Give RayClusters pods of their current template, and remove those of worker groups that are gone.

    KubeRay replaces no pod by itself. A RayCluster whose template changed is suspended and resumed: jobs on it end. An
    interrupted run is gone on with by the same command. Exit codes: 0 done, 1 refused or not done in time, 2 bad input
    or no access, 130 interrupted.
    """
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    command = f"ops rollout {cluster} --env {env}" if cluster else f"ops rollout --env {env}"
    with _changing(f"`{command}` goes on where this stopped"):
        confirm.rollout(environment, cluster, say, yes=yes, dry_run=dry_run, force=force, timeout=timeout * 60)


@app.command("update-software")
def update_software(
    env: EnvName = "dev",
    group: Annotated[list[str] | None, typer.Option("--group", help="Instance group. Default: all.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Update HyperPod's platform software (AMI, drivers): root volumes are wiped, lifecycle scripts run again.

    Refused while nodes are in deep health checks. Exit codes: 0 begun, 1 refused, 2 bad input or no access.
    """
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    with _changing("nothing more was begun"):
        confirm.update_software(environment, group or [], say, yes=yes, dry_run=dry_run, force=force)


@kuberay_app.command("crds")
def kuberay_crds(
    env: EnvName = "dev",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Give kinds that a plain `helm install` left to the platform stack.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Compare KubeRay's kinds in the cluster with those of the environment's version, before a deployment does.

    The platform stack upgrades them: this says what that will change, and adopts what it would refuse. Exit codes:
    0 a deployment takes them, 1 it would fail on them, 2 bad input or no access.
    """
    from config.facts.charts_lock import ChartError  # noqa: PLC0415
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    try:
        with _changing("nothing more was adopted"):
            taken = confirm.kuberay_crds(environment, say, adopt=adopt, yes=yes)
    except ChartError as error:
        fail(str(error))
    if not taken:
        fail("a deployment of the platform stack would fail on these kinds. Fix: see docs/operate/kuberay.md", code=1)


@contextmanager
def _changing(again: str) -> Iterator[None]:
    """Say what a command that changes something could not do; `again` is for whoever interrupts it."""
    from ops.change.scale import RefusedError  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415

    try:
        yield
    except RefusedError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted; {again}", code=130)
