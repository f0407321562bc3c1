"""Commands for jobs on a RayCluster: submit, list, logs, stop."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from typer.core import TyperCommand

from config import Environment
from k8s_charts.shared.names import RAY_DIRECTORY
from ops.cli import EnvName, app, console, fail, load, say, show

if TYPE_CHECKING:
    from ops.jobs.runs import Request, Run, Runs

job_app = typer.Typer(no_args_is_help=True, help="Jobs on a RayCluster.")
app.add_typer(job_app, name="job")

_WORDS: Final = "ops.job.words"
# A Job's pods carry its name and five letters more, a label holds 63.
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")

RunName = Annotated[str, typer.Argument(help="Name of the run.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="RayCluster. Default: the only one.")]
Direct = Annotated[bool, typer.Option("--direct", help="A job that was submitted with --direct: ask Ray itself.")]


class _WithWords(TyperCommand):
    """A command that takes what follows `--` as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta[_WORDS] = args[:cut], args[cut + 1 :]
        return super().parse_args(ctx, args)


@job_app.command(cls=_WithWords)
def submit(
    context: typer.Context,
    job: Annotated[str | None, typer.Argument(help="Python file, of ray_jobs/ or your own.")] = None,
    *,
    env: EnvName = "dev",
    name: Annotated[str | None, typer.Option(help="Name of the run. Default: the file's, and the time.")] = None,
    cluster: Cluster = None,
    working_dir: Annotated[
        Path | None, typer.Option(help="Folder that travels with the job. Default: the file's own.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Pattern of what stays here, such as '*.parquet'.")] = None,
    storage: Annotated[
        str | None, typer.Option(help="Where runs keep their checkpoints (RUN_STORAGE), a folder or s3://.")
    ] = None,
    max_attempts: Annotated[int, typer.Option(min=1, help="Submissions at most, whatever the reasons.")] = 100,
    max_stalled: Annotated[
        int, typer.Option(min=1, help="Failures in a row at most that bring no new checkpoint.")
    ] = 5,
    again: Annotated[bool, typer.Option("--again", help="Go on with a run of this name that is over.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not show the output.")] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Without a supervisor: Ray's API through a port-forward.")
    ] = False,
    in_head: Annotated[
        bool, typer.Option("--in-head", help="Without a supervisor: `ray job submit` in the head pod.")
    ] = False,
) -> None:
    """Submit JOB with the arguments after `--`, or a whole command after `--`, and show its output.

    A supervisor in the cluster submits it again when the head or a node is lost; a failure of the code is not tried
    again. Ctrl-C only ends the looking. Exit codes: the job's; 1 refused, 2 bad input or no access, 130 detached.
    """
    from ops.jobs.package import EntryError, entry  # noqa: PLC0415
    from ops.jobs.runs import Request  # noqa: PLC0415 - the AWS SDK would double the start of `ops check`

    environment = load(env)
    if direct and in_head:
        fail("--direct and --in-head are both given. Allowed: one of them")
    try:
        wanted = entry(job, context.meta.get(_WORDS, []), working_dir, exclude or [])
    except EntryError as error:
        fail(str(error))
    run = name or _named(wanted.title)
    if not _NAME.fullmatch(run):
        fail(f"--name: {run!r} is invalid. Allowed: a letter, then small letters, digits and dashes, at most 52 in all")
    with _talking(environment, f"`ops job logs {run} --env {env}`, `ops job stop {run} --env {env}`", direct) as runs:
        request = Request(
            name=run,
            cluster=runs.cluster(cluster),
            command=wanted.command,
            storage=storage or f"{environment.fsx.mount_path}/{RAY_DIRECTORY}/runs",
            package=wanted.package,
            max_attempts=max_attempts,
            max_stalled=max_stalled,
        )
        code = _submit_as(runs, request, environment, again=again, detach=detach, direct=direct, in_head=in_head)
    raise typer.Exit(code)


@job_app.command("list")
def list_jobs(env: EnvName = "dev", cluster: Cluster = None, direct: Direct = False) -> None:
    """List the runs: where each is, and why."""
    environment = load(env)
    with _talking(environment) as runs:
        if direct:
            show(_rays_table(_head(runs, environment, cluster).jobs()))
        else:
            show(_table([run for run in runs.all() if cluster in (None, run.cluster)]))


@job_app.command()
def logs(name: RunName, env: EnvName = "dev", cluster: Cluster = None, direct: Direct = False) -> None:
    """Show the output of a run from its beginning, until it is over. Exit code: the job's; 130 interrupted."""
    from ops.jobs import direct as job_direct  # noqa: PLC0415
    from ops.jobs import follow  # noqa: PLC0415

    environment = load(env)
    with _talking(environment, f"`ops job logs {name} --env {env}` shows it again", direct) as runs:
        if direct:
            code = job_direct.follow(_head(runs, environment, cluster), name, console)
        else:
            code = follow.follow(runs, name, console)
    raise typer.Exit(code)


@job_app.command()
def stop(name: RunName, env: EnvName = "dev", cluster: Cluster = None, direct: Direct = False) -> None:
    """End a run, with what Ray runs of it; its checkpoints stay."""
    environment = load(env)
    with _talking(environment) as runs:
        if direct:
            _head(runs, environment, cluster).stop(name)
        else:
            runs.stop(name)
    say(f"{name} is told to end; `ops job list --env {env}` shows when it has")


def _submit_as(
    runs: "Runs",
    request: "Request",
    environment: Environment,
    *,
    again: bool,
    detach: bool,
    direct: bool,
    in_head: bool,
) -> int:
    from ops.jobs import direct as job_direct  # noqa: PLC0415
    from ops.jobs import follow  # noqa: PLC0415

    say(f"{request.name}: {request.command} on RayCluster {request.cluster} of {environment.name}")
    if in_head:
        pod = job_direct.head_of(runs.core, environment.ray.namespace, request.cluster)
        return job_direct.submit_in_head(runs.core, environment.ray.namespace, pod, request)
    if direct:
        head = _head(runs, environment, request.cluster)
        job_direct.submit(head, request)
        return 0 if detach else job_direct.follow(head, request.name, console)
    job_direct.refuse_simulated(runs.core, environment.ray.namespace, request.cluster)
    runs.create(request, again=again)
    if detach:
        say(f"submitted; `ops job logs {request.name} --env {environment.name}` shows its output")
        return 0
    return follow.follow(runs, request.name, console)


def _head(runs: "Runs", environment: Environment, cluster: str | None) -> Any:
    from ops.jobs import direct as job_direct  # noqa: PLC0415
    from ops.jobs.head_api import Head  # noqa: PLC0415

    pod = job_direct.head_of(runs.core, environment.ray.namespace, runs.cluster(cluster))
    return Head(runs.core, environment.ray.namespace, pod)


@contextmanager
def _talking(environment: Environment, again: str = "", direct: bool = False) -> Iterator["Runs"]:
    """Yield the environment's runs, and say what went wrong; `again` is for whoever interrupts."""
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.jobs.head_api import HeadUnreachableError, RayApiError  # noqa: PLC0415
    from ops.jobs.runs import RunError, Runs, as_submitter  # noqa: PLC0415

    try:
        with connect(environment) as clients, as_submitter():
            yield Runs(clients.kubernetes, environment.ray.namespace)
    except (RunError, HeadUnreachableError, RayApiError) as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        more = " (with --direct)" if direct else ""
        fail(f"detached, the job goes on; {again}{more}" if again else "interrupted", code=130)


def _named(title: str) -> str:
    """A name that nobody else takes: what it runs, and when."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:32] or "job"
    stem = words if words[0].isalpha() else f"run-{words}"
    return f"{stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _table(runs: list["Run"]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "RayCluster", "state", "attempt", "progress", "since (UTC)"):
        drawn.add_column(column, no_wrap=True)
    drawn.add_column("why", overflow="fold")
    for run in runs:
        progress = run.state.get("progress", -1)
        drawn.add_row(
            run.name,
            run.cluster,
            run.phase,
            str(run.state.get("attempt", "")),
            str(progress) if progress >= 0 else "",
            f"{run.created:%Y-%m-%d %H:%M}",
            str(run.state.get("reason", "")),
        )
    return drawn


def _rays_table(jobs: list[dict[str, Any]]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("job", "state"):
        drawn.add_column(column, no_wrap=True)
    drawn.add_column("entry point", overflow="fold")
    for job in jobs:
        drawn.add_row(str(job.get("submission_id") or job.get("job_id")), job["status"], job["entrypoint"])
    return drawn
