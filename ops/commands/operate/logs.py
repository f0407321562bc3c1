"""Commands that print what happened: logs, events."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ops.cli import EnvName, app, errors, fail, load, say
from ops.durations import Duration, duration
from ops.output import Format, Output, emit
from ops.watch.logs import LogSource

Since = Annotated[
    Duration | None,
    typer.Option(parser=duration, metavar="DURATION", help="Only what is younger, such as 10m. Default: all."),
]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Only this RayCluster (head and worker). Default: all.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Continue until Ctrl-C.")]


@app.command()
def logs(
    source: Annotated[LogSource, typer.Argument(metavar="SOURCE", help="Whose logs.")],
    env: EnvName,
    cluster: Cluster = None,
    follow: Follow = False,
    since: Since = None,
) -> None:
    """Print the logs of SOURCE, each line with the pod or the stream that wrote it.

    Sources:
    - head, worker: Ray's pods
    - reaper: it deletes Ray pods on lost nodes
    - supervisor: the job supervisors, with the output of their jobs
    - image-build: the builds of the Ray image
    - lifecycle: HyperPod's lifecycle scripts, from CloudWatch
    - health: health monitoring and deep health checks, from CloudWatch

    With `--follow`, logs of new pods are included.

    Exit codes:
    - 0: printed
    - 1: there are no logs
    - 2: bad input or no access
    - 130: `--follow` was interrupted

    Examples:
    - `ops logs head --env dev --follow`
    - `ops logs lifecycle --env dev --since 2h`
    """
    from ops.clients import CallerAccount, connect  # noqa: PLC0415 - the AWS SDK would double the time of `ops check`
    from ops.errors import UnreachableError, as_viewer  # noqa: PLC0415
    from ops.watch import logs as places  # noqa: PLC0415
    from ops.watch.node_logs import NodeLogs  # noqa: PLC0415
    from ops.watch.pod_logs import PodLogs  # noqa: PLC0415

    environment = load(env)
    names = [each.name for each in environment.ray.clusters]
    if cluster is not None and cluster not in names:
        fail(f"--cluster: {cluster} is invalid: {env} has no such RayCluster. Allowed: {', '.join(names)}")
    seconds = since.seconds if since else None
    try:
        account = CallerAccount(environment)
        with as_viewer():
            if source in places.STREAMS:
                found = account.client("sagemaker").describe_cluster(ClusterName=environment.hyperpod.cluster_name)
                group = places.log_group(found)
                of_nodes = NodeLogs(account.client("logs"), group, places.STREAMS[source], say, seconds)
                of_nodes.follow() if follow else of_nodes.print()
            else:
                import kubernetes  # noqa: PLC0415

                with connect(environment, account) as clients:
                    core = kubernetes.client.CoreV1Api(clients.kubernetes)
                    of_pods = PodLogs(core, places.pods_of(environment, source, cluster), say, seconds)
                    of_pods.follow() if follow else of_pods.print()
    except places.NoLogsError as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command()
def events(
    env: EnvName,
    since: Annotated[
        Duration, typer.Option(parser=duration, metavar="DURATION", help="Only what is younger, such as 10m.")
    ] = "2h",  # type: ignore[assignment]  # the parser gets the text
    follow: Follow = False,
    output: Output = Format.TABLE,
) -> None:
    """Print HyperPod's events, CloudFormation's failures and Kubernetes' warnings, by time.

    Kubernetes keeps events for an hour. A source that cannot be read is named
    on standard error.

    Exit codes:
    - 0: printed; at least one source could be read
    - 2: bad input or no access
    - 130: `--follow` was interrupted

    Examples:
    - `ops events --env dev`
    - `ops events --env dev --since 30m --follow`

    With `-o json` or `-o yaml`:

    ```json
    [{"time": "2026-11-02T10:15:00+00:00", "source": "HyperPod",
      "level": "Error", "about": "i-0123456789abcdef0",
      "message": "Instance failed."}]
    ```
    """
    from ops.clients import CallerAccount  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.watch.event_feed import Feed  # noqa: PLC0415

    environment = load(env)
    if follow and output is not Format.TABLE:
        fail("--follow is refused: it prints lines. Allowed: -o table, or no --follow")
    try:
        with Feed(environment, CallerAccount(environment), since.seconds) as feed:
            if follow:
                feed.follow(say, _warn)
            found = feed.read()
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for name, reason in found.unseen.items():
        _warn(f"{name} cannot be read: {reason}")
    if output is Format.TABLE:
        for event in found.events:
            say(str(event))
        if not found.events:
            say(f"no events in the last {since}")
    else:
        emit([event.as_data() for event in found.events], Table, output)
    if not found.is_of_any_source:
        raise typer.Exit(2)


def _warn(line: str) -> None:
    errors.print(f"[bold yellow]warning:[/] {escape(line)}", soft_wrap=True, highlight=False)
