"""Commands on a deployed environment: wait, scale, rollout, software updates, KubeRay's CRDs."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer

from ops.cli import EnvName, app, console, fail, kuberay_app, load, say, show
from ops.readiness.item import Require, State

Timeout = Annotated[float, typer.Option(min=0, help="Give up after this many minutes; rerun to resume.")]
Interval = Annotated[float, typer.Option(min=0.2, help="Seconds between two checks.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Proceed even if a Ray job is running or its state is unknown.")]


@app.command()
def wait(
    env: EnvName = "dev",
    timeout: Timeout = 120,
    interval: Interval = 15,
    require: Annotated[
        Require,
        typer.Option(help="all: everything. min: min_count nodes and min_replicas workers. none: report once, exit 0."),
    ] = Require.ALL,
) -> None:
    """Wait until nodes, image, volume and RayClusters are ready; show what is not ready and why.

    It changes nothing: stop it at any time and rerun it.

    Exit codes:
    - 0: ready as required; with `--require none`, in any state
    - 1: not ready in time
    - 2: bad input or no access
    - 3: failed; waiting will not help
    - 130: interrupted

    Examples:
    - `ops wait --env dev`
    - `ops wait --env prod --require min --timeout 240`
    """
    from ops.clients import connect  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.readiness.observe import observe  # noqa: PLC0415
    from ops.readiness.wait import progress, table  # noqa: PLC0415
    from ops.readiness.wait import wait as wait_for_items  # noqa: PLC0415

    environment = load(env)
    again = f"rerun `ops wait --env {env}` to resume"
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
            cause = f"{item.kind} {item.name}: {item.detail}"
            fail(f"{env} failed, waiting will not help: {cause}. Fix: remove the cause", code=3)
    if missing := [f"{item.kind} {item.name}" for item in items if item.state is not State.READY]:
        fail(f"{env} is not ready after {timeout:g} minutes: {', '.join(missing)}. Fix: {again}", code=1)
    enough = "has what `--require min` asks for" if require is Require.MIN else "is ready"
    console.print(f"[bold green]{env} {enough}[/]", highlight=False)


@app.command()
def scale(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="HyperPod instance group.")],
    count: Annotated[int, typer.Argument(metavar="COUNT", min=0, help="New number of nodes, lower than now.")],
    *,
    env: EnvName = "dev",
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    timeout: Timeout = 60,
) -> None:
    """Lower an instance group to COUNT nodes: drain nodes, lower Ray's replicas, delete the nodes.

    Afterwards change the lines of the environment file that the command
    prints; otherwise the next deployment adds the nodes again. To add nodes,
    raise `count` in the environment and deploy. Rerun the command to resume
    after an interruption.

    Exit codes:
    - 0: done
    - 1: refused, or not done in time
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops scale worker-group-1 3 --env dev --dry-run`
    - `ops scale worker-group-1 3 --env dev`
    """
    from ops.change import confirm  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`

    environment = load(env)
    with _changing(f"rerun `ops scale {group} {count} --env {env}` to resume"):
        confirm.scale(environment, group, count, say, yes=yes, dry_run=dry_run, force=force, timeout=timeout * 60)


@app.command()
def rollout(
    cluster: Annotated[
        str | None, typer.Argument(metavar="RAYCLUSTER", help="Only this RayCluster. Default: all.")
    ] = None,
    *,
    env: EnvName = "dev",
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Proceed even if a Ray job is running, its state is unknown, or the image is missing."
        ),
    ] = False,
    timeout: Timeout = 60,
) -> None:
    """Replace pods with an old template, and delete pods of removed worker groups.

    KubeRay replaces no pod when its template changes. This command suspends
    and resumes such a RayCluster: its jobs end. Rerun the command to resume
    after an interruption.

    Exit codes:
    - 0: done
    - 1: refused, or not done in time
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops rollout --env dev --dry-run`
    - `ops rollout rayml --env dev`
    """
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    command = f"ops rollout {cluster} --env {env}" if cluster else f"ops rollout --env {env}"
    with _changing(f"rerun `{command}` to resume"):
        confirm.rollout(environment, cluster, say, yes=yes, dry_run=dry_run, force=force, timeout=timeout * 60)


@app.command("update-software")
def update_software(
    env: EnvName = "dev",
    group: Annotated[list[str] | None, typer.Option("--group", help="Instance group. Default: all.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Update HyperPod's platform software (AMI, drivers): it wipes root volumes and reruns lifecycle scripts.

    It is refused while nodes are in deep health checks.

    Exit codes:
    - 0: started; `ops wait` shows its progress
    - 1: refused
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops update-software --env dev --dry-run`
    - `ops update-software --env dev --group worker-group-1`
    """
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    with _changing("nothing more was started"):
        confirm.update_software(environment, group or [], say, yes=yes, dry_run=dry_run, force=force)


@kuberay_app.command("crds")
def kuberay_crds(
    env: EnvName = "dev",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Let the platform stack own CRDs that a plain `helm install` left behind.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Compare KubeRay's CRDs in the cluster with those of the environment's KubeRay version.

    The platform stack upgrades the CRDs. This command shows what a deployment
    would change, and adopts CRDs on which it would fail.

    Exit codes:
    - 0: a deployment accepts the CRDs
    - 1: a deployment would fail on them
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops kuberay crds --env dev`
    - `ops kuberay crds --env dev --adopt`
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
        fail("a deployment of the platform stack would fail on these CRDs. Fix: see docs/operate/kuberay.md", code=1)


@contextmanager
def _changing(again: str) -> Iterator[None]:
    """Report why a change was refused or failed; after Ctrl-C print `again`."""
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
