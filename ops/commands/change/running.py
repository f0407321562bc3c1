"""Commands on a deployed environment: wait, scale, rollout, software updates, KubeRay's CRDs."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ops import completion
from ops.cli import EnvName, app, console, errors, fail, kuberay_app, load, load_any, say
from ops.durations import UNTIL_READY, Duration, Interval, Timeout
from ops.max_unavailable import MaxUnavailable
from ops.max_unavailable import max_unavailable as parsed
from ops.options import Checkpoint, DryRun, Force, Yes
from ops.output import Format, Output, emit, teller
from ops.readiness.item import ReadinessItem, ReadinessState, Require


@app.command()
def wait(
    env: EnvName,
    timeout: Timeout = UNTIL_READY,
    interval: Interval = Duration(15),
    require: Annotated[
        Require,
        typer.Option(help="all: everything. min: min_count nodes and min_replicas workers. none: report once, exit 0."),
    ] = Require.ALL,
    output: Output = Format.TABLE,
) -> None:
    """Wait until nodes, image, volume and RayClusters are ready; show what is not ready and why.

    With `slurm`, it waits for the HyperPod cluster and its nodes. It changes nothing: stop it at any time and rerun it.
    In a pipe it prints each change, and a line a minute without one.

    It also shows when everything should be ready, by published times of AWS,
    and which item decides it. It says when that is late or overdue, and
    shows no end while nodes are not launched: nobody knows when capacity
    comes.

    Exit codes:
    - 0: ready as required; with `--require none`, in any state
    - 1: not ready in time
    - 2: bad input or no access
    - 3: failed, or paused (`ops resume` ends the pause); waiting will not help
    - 130: interrupted

    Examples:
    - `ops wait --env dev`
    - `ops wait --env prod --require min --timeout 1h`
    - `ops wait --env dev --require none -o json`

    With `-o json` or `-o yaml`, progress goes to standard error:

    ```json
    {"environment": "dev", "ready": false,
     "expected": {"earliest": "2026-11-02T10:30:00+00:00",
       "typical": "2026-11-02T10:37:00+00:00",
       "latest": "2026-11-02T10:45:00+00:00", "overdue": false,
       "decided_by": "instance group worker-group-1"},
     "items": [{"kind": "volume claim", "name": "ray/fsx-claim",
       "state": "waiting", "detail": "Pending"}]}
    ```

    `expected` is null if nothing waits or waiting will not help; its times
    are null if nobody knows the end.
    """
    from ops.errors import UnreachableError  # noqa: PLC0415 - the AWS SDK would double the time of `ops check`
    from ops.readiness.expected_end import outlook  # noqa: PLC0415 - other commands read no minutes
    from ops.readiness.observe import observing  # noqa: PLC0415
    from ops.readiness.wait import summary, table  # noqa: PLC0415
    from ops.readiness.wait import wait as wait_for_items  # noqa: PLC0415

    environment = load_any(env)
    again = f"rerun `ops wait --env {env}` to resume"
    try:
        with observing(environment, require) as observe:
            if require is Require.NONE:
                items = observe()
                emit(_data(env, items), lambda: table(items, summary(items)), output)
                return
            items = wait_for_items(
                observe,
                console if output is Format.TABLE else errors,
                timeout=timeout.seconds,
                interval=interval.seconds,
            )
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted; {again}", code=130)
    emit(_data(env, items), None, output)
    for item in items:
        if item.state is ReadinessState.FAILED:
            cause = f"{item.kind} {item.name}: {item.detail}"
            fail(f"{env} failed, waiting will not help: {cause}. Fix: remove the cause", code=3)
    if any(item.state is ReadinessState.PAUSED for item in items):
        fail(f"{env} is paused, waiting will not help. Fix: `ops resume --env {env}`", code=3)
    if missing := [f"{item.kind} {item.name}" for item in items if item.state is not ReadinessState.READY]:
        now = datetime.now(UTC)
        end = outlook(items, now)
        when = f"; {end.sentence(now)}" if end and end.end else ""
        fail(f"{env} is not ready after {timeout}: {', '.join(missing)}{when}. Fix: {again}", code=1)
    enough = "has what `--require min` asks for" if require is Require.MIN else "is ready"
    (console if output is Format.TABLE else errors).print(f"[bold green]{env} {enough}[/]", highlight=False)


def _data(env: str, items: list[ReadinessItem]) -> dict[str, Any]:
    """Return the items as data for programs."""
    from ops.readiness.expected_end import outlook  # noqa: PLC0415 - other commands read no minutes

    now = datetime.now(UTC)
    end = outlook(items, now)
    return {
        "environment": env,
        "ready": all(item.state is ReadinessState.READY for item in items),
        "expected": end.as_data(now) if end else None,
        "items": [{"kind": i.kind, "name": i.name, "state": i.state.value, "detail": i.detail} for i in items],
    }


@app.command()
def scale(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", autocompletion=completion.instance_groups, help="HyperPod instance group.")
    ],
    count: Annotated[int, typer.Argument(metavar="COUNT", min=0, help="New number of nodes, lower than now.")],
    *,
    env: EnvName,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    checkpoint: Checkpoint = False,
    timeout: Timeout = Duration(3600),
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
    - `ops scale worker-group-1 3 --env dev --checkpoint`
    """
    from ops.change import confirm  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`

    require_one(checkpoint=checkpoint, force=force)
    environment = load(env)
    with changing(f"rerun `ops scale {group} {count} --env {env}` to resume"):
        confirm.scale(
            environment,
            group,
            count,
            say,
            yes=yes,
            dry_run=dry_run,
            force=force,
            checkpoint=checkpoint,
            timeout=timeout.seconds,
        )


@app.command()
def rollout(
    cluster: Annotated[
        str | None,
        typer.Argument(
            metavar="RAYCLUSTER", autocompletion=completion.ray_clusters, help="Only this RayCluster. Default: all."
        ),
    ] = None,
    *,
    env: EnvName,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Proceed even if a Ray job is running, its state is unknown, or the image is missing."
        ),
    ] = False,
    checkpoint: Checkpoint = False,
    max_unavailable: Annotated[
        MaxUnavailable | None,
        typer.Option(
            parser=parsed,
            metavar="N|P%",
            help="Replace the workers of each group in batches of N, or P% of the group; the head last. "
            "Default: all pods at once.",
        ),
    ] = None,
    timeout: Timeout = Duration(3600),
) -> None:
    """Replace pods with an old template, and delete pods of removed worker groups.

    KubeRay replaces no pod when its template changes. This command suspends
    and resumes such a RayCluster: its jobs end. Rerun the command to resume
    after an interruption.

    With `--max-unavailable`, it deletes the old workers in batches, waits
    until each batch is ready again, and replaces the head last. Jobs end all
    the same: those that need every worker with the first batch, all others
    with the head. Batches suit RayClusters whose tasks Ray retries. They are
    refused if the image changes, because Ray accepts no worker with another
    version of Ray or Python (override with `--force`).

    Exit codes:
    - 0: done
    - 1: refused, or not done in time
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops rollout --env dev --dry-run`
    - `ops rollout rayml --env dev`
    - `ops rollout rayml --env dev --max-unavailable 10%`
    """
    from ops.change import confirm  # noqa: PLC0415

    require_one(checkpoint=checkpoint, force=force)
    environment = load(env)
    batches = f" --max-unavailable {max_unavailable}" if max_unavailable else ""
    command = f"ops rollout {cluster} --env {env}" if cluster else f"ops rollout --env {env}"
    with changing(f"rerun `{command}{batches}` to resume"):
        confirm.rollout(
            environment,
            cluster,
            say,
            batches=max_unavailable,
            yes=yes,
            dry_run=dry_run,
            force=force,
            checkpoint=checkpoint,
            timeout=timeout.seconds,
        )


@app.command("update-software")
def update_software(
    env: EnvName,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="NAME",
            autocompletion=completion.instance_groups,
            help="Instance group. Repeatable. Default: all.",
        ),
    ] = None,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    checkpoint: Checkpoint = False,
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

    require_one(checkpoint=checkpoint, force=force)
    environment = load(env)
    with changing("nothing more was started"):
        confirm.update_software(
            environment, group or [], say, yes=yes, dry_run=dry_run, force=force, checkpoint=checkpoint
        )


@kuberay_app.command("crds")
def kuberay_crds(
    env: EnvName,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Let the platform stack own CRDs that a plain `helm install` left behind.")
    ] = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
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

    With `-o json` or `-o yaml`, sentences go to standard error:

    ```json
    {"environment": "dev", "accepted": true, "crds": [
      {"name": "rayclusters.ray.io", "installed": true,
       "wanted": true, "owner": "stack", "refusal": "",
       "accepted": true}]}
    ```
    """
    from config.facts.charts_lock import ChartError  # noqa: PLC0415
    from ops.change import confirm  # noqa: PLC0415

    environment = load(env)
    try:
        with changing("nothing more was adopted"):
            kinds = confirm.kuberay_crds(environment, teller(output), adopt=adopt, yes=yes)
    except ChartError as error:
        fail(str(error))
    accepted = not any(kind.is_in_the_way for kind in kinds)
    emit({"environment": env, "accepted": accepted, "crds": [kind.data() for kind in kinds]}, None, output)
    if not accepted:
        fail("a deployment of the platform stack would fail on these CRDs. Fix: see docs/operate/kuberay.md", code=1)


def require_one(*, checkpoint: bool, force: bool) -> None:
    """Exit with 2 if both options are given: one saves jobs, the other gives them up."""
    if checkpoint and force:
        fail("--checkpoint and --force exclude each other. Fix: give one of them")


@contextmanager
def changing(again: str) -> Iterator[None]:
    """Report why a change was refused or failed; after Ctrl-C print `again`."""
    from ops.errors import RefusedError, UnreachableError  # noqa: PLC0415

    try:
        yield
    except RefusedError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail(f"interrupted; {again}", code=130)
