"""Commands for jobs on a RayCluster: submit, list, top, logs, checkpoint, profile, exec, stop."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from config import EksEnvironment, Environment
from k8s_charts.shared.names import RAY_DIRECTORY
from ops import completion
from ops.cli import Application, Command, EnvName, app, aside, console, errors, fail, load, say
from ops.durations import Duration, duration
from ops.jobs.kind import JobKind
from ops.options import Cluster, Watch
from ops.output import Format, Output, emit, require_terminal

if TYPE_CHECKING:
    from ops.jobs.bucket import WorkingDirUpload
    from ops.jobs.run import ExistingRun, OwnCluster, OwnPods, RunRequest
    from ops.jobs.runs import Runs

job_app = Application(help="Jobs on a RayCluster.")
app.add_typer(job_app, name="job")

_WORDS: Final = "ops.job.words"
_OTHER: Final = "Other routes, retries and numbers of workers"
_OPERATED: Final = "rayjob or pytorchjob"
# A Job's pods have its name and a suffix of six characters; a label value has at most 63.
_LONGEST: Final = 52
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_ATTEMPTS: Final = 100
# Operators cannot tell a failure of the infrastructure from one of the code.
_ATTEMPTS_OF_OPERATOR: Final = 4

RunName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the run.")]
Direct = Annotated[bool, typer.Option("--direct", help="The job was submitted with --direct: ask Ray's own API.")]


class _WithWords(Command):
    """A command that keeps the words after `--` unparsed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta[_WORDS] = args[:cut], args[cut + 1 :]
        return super().parse_args(ctx, args)


@job_app.command(cls=_WithWords)
def submit(
    context: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB", autocompletion=completion.jobs, help="Python file: one of ray_jobs/ or your own."
        ),
    ] = None,
    *,
    env: EnvName,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the run. Default: the file's name and the time.")
    ] = None,
    cluster: Cluster = None,
    working_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to upload with the job, at most 500 MB. Default: the folder of JOB; none without JOB.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_OTHER,
            metavar="PATTERN",
            help="Pattern of files not to upload, such as '*.parquet'. Repeatable.",
        ),
    ] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Environment variable of the job's processes; no secret. Repeatable."),
    ] = None,
    pip: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Requirements file with versions and hashes; Ray installs it on each node of the job."
        ),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Folder or s3:// address for checkpoints (RUN_STORAGE).")
    ] = None,
    as_: Annotated[
        JobKind,
        typer.Option(
            "--as",
            metavar="ROUTE",
            rich_help_panel=_OTHER,
            help="What carries the run out: supervised, rayjob or pytorchjob.",
        ),
    ] = JobKind.SUPERVISED,
    workers: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_OTHER,
            min=1,
            metavar="N",
            help="With --as rayjob: workers of each group; with --as pytorchjob: pods. Default: as many as the "
            "RayCluster has.",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_OTHER,
            metavar="NAME",
            help="With --as rayjob or pytorchjob: let Kueue's LocalQueue NAME start it. Default: at once.",
        ),
    ] = None,
    min_workers: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_OTHER,
            min=1,
            metavar="N",
            help="Continue with so few workers if there are no resources for all.",
        ),
    ] = None,
    max_workers: Annotated[
        int | None,
        typer.Option(rich_help_panel=_OTHER, min=1, metavar="N", help="All workers of the job, with --min-workers."),
    ] = None,
    wait_for_workers: Annotated[
        Duration | None,
        typer.Option(
            rich_help_panel=_OTHER,
            parser=duration,
            metavar="DURATION",
            help="Wait so long for resources for all workers, then continue with fewer. Default: 10m.",
        ),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_OTHER,
            min=1,
            metavar="N",
            help="Maximum number of attempts, whatever the reason. Default: 100; 4 of a RayJob or PyTorchJob.",
        ),
    ] = None,
    max_stalled: Annotated[
        int,
        typer.Option(
            rich_help_panel=_OTHER, min=1, metavar="N", help="Maximum of failures in a row without a new checkpoint."
        ),
    ] = 5,
    give_up_after: Annotated[
        Duration,
        typer.Option(
            rich_help_panel=_OTHER,
            parser=duration,
            metavar="DURATION",
            help="Retry failures of the infrastructure for at least this time, whatever --max-stalled is.",
        ),
    ] = Duration(4 * 3600),
    again: Annotated[bool, typer.Option("--again", help="Resume an ended run of this name.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return at once; do not show the output.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the cluster check the run's object, and print it; create nothing.")
    ] = False,
    direct: Annotated[
        bool,
        typer.Option(
            "--direct", rich_help_panel=_OTHER, help="No supervisor: submit to Ray's API through a port-forward."
        ),
    ] = False,
    in_head: Annotated[
        bool,
        typer.Option("--in-head", rich_help_panel=_OTHER, help="No supervisor: run `ray job submit` in the head pod."),
    ] = False,
) -> None:
    """Submit JOB with the arguments after `--` and show its output. Without JOB, submit the command after `--`.

    A supervisor in the cluster resubmits the job when the head or a node is
    lost. It retries a failure of the job's own code only if the attempt wrote
    a new checkpoint. Ctrl-C detaches; the job keeps running.

    With `--as rayjob`, KubeRay makes a RayCluster for this job alone, and
    makes another one after each failure (docs/explain/rayjobs.md).

    With `--as pytorchjob`, Kubeflow's operator starts JOB with torchrun, and
    HyperPod resumes it after a lost node (docs/operate/pytorchjobs.md).

    With `--min-workers` and `--max-workers`, a job that uses the library
    ray_resume continues with fewer workers after the loss of a node, and
    with all of them once there is room (docs/operate/elastic-jobs.md).

    Exit codes:
    - the job's own exit code; 0 with `--detach`
    - 1: refused, such as a run name in use
    - 2: bad input or no access
    - 130: detached, or the run was stopped

    Examples:
    - `ops job submit pytorch_ddp --env dev`
    - `ops job submit train.py --env dev --detach -- --epochs 3`
    - `ops job submit --env dev --working-dir . -- python -m trainer.main`
    - `ops job submit train.py --env dev --variable NCCL_DEBUG=INFO`
    - `ops job submit pytorch_ddp --env dev --min-workers 2 --max-workers 4`
    - `ops job submit pytorch_ddp --env dev --as rayjob --workers 2`
    - `ops job submit train.py --env dev --as pytorchjob --dry-run`
    """
    from ops.jobs.bucket import WorkingDirUpload  # noqa: PLC0415
    from ops.jobs.operators.rayjob import LONGEST_NAME  # noqa: PLC0415
    from ops.jobs.package import entry  # noqa: PLC0415
    from ops.jobs.packing import EntryError, LargePackage, library, pack  # noqa: PLC0415
    from ops.jobs.pip import packages  # noqa: PLC0415
    from ops.jobs.run import RunRequest  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.jobs.variables import secrets_by_name, variables  # noqa: PLC0415
    from ops.jobs.workers import with_range  # noqa: PLC0415

    environment = load(env)
    if direct and in_head:
        fail("--direct and --in-head exclude each other. Fix: give one of them")
    own, pods = _of_operator(context, as_, workers, queue)
    launcher = "torchrun" if pods else "python"
    try:
        own_variables = variables(variable or [])
        lines = packages(pip, environment) if pip else []
        with _nothing_submitted():
            shown = partial(pack, console=errors, say=aside)
            wanted = entry(job, context.meta.get(_WORDS, []), working_dir, exclude or [], launcher, pack=shown)
        patience = wait_for_workers.seconds if wait_for_workers else None
        command = with_range(wanted.command, min_workers, max_workers, patience)
    except EntryError as error:
        fail(str(error))
    for suspect in secrets_by_name(list(own_variables)):
        aside(
            f"warning: --variable {suspect}: its name suggests a secret, and everyone who can read Jobs sees its "
            "value. Fix: let the platform team add it to ray.clusters[].secrets"
        )
    longest = _LONGEST if as_ is JobKind.SUPERVISED else LONGEST_NAME
    run = name or _named(wanted.title, longest)
    if not _NAME.fullmatch(run) or len(run) > longest:
        fail(
            f"--name: {run!r} is invalid. Allowed: a letter, then small letters, digits and dashes, "
            f"at most {longest} in all"
        )
    with _talking(environment, f"`ops job logs {run} --env {env}`, `ops job stop {run} --env {env}`", direct) as runs:
        place, package = None, wanted.package
        if isinstance(package, LargePackage):
            place, package = WorkingDirUpload(environment, package), library()
        at = storage or _storage(environment)
        request = RunRequest(
            name=run,
            cluster=runs.cluster(cluster),
            command=command,
            storage=at,
            package=package,
            max_attempts=max_attempts or (_ATTEMPTS if as_ is JobKind.SUPERVISED else _ATTEMPTS_OF_OPERATOR),
            max_stalled=max_stalled,
            give_up_after=give_up_after.seconds,
            own_cluster=own,
            own_pods=pods,
            # The nodes of a RayCluster share the storage; a PyTorchJob's pods fetch it each for itself.
            fetch=place.fetch("." if pods else _packages(environment, at)) if place else "",
            variables=own_variables,
            pip=lines,
        )
        if dry_run:
            emit(runs.preview(request), None, Format.YAML)
            return
        code = _submit_as(runs, request, environment, place, again=again, detach=detach, direct=direct, in_head=in_head)
    raise typer.Exit(code)


@job_app.command("list")
def list_jobs(env: EnvName, cluster: Cluster = None, direct: Direct = False, output: Output = Format.TABLE) -> None:
    """List the runs, each with its state and the reason for it, such as what it waits for.

    Exit codes:
    - 0: listed
    - 1: refused, such as `--direct` without a running head
    - 2: bad input or no access

    Example:
    - `ops job list --env dev`

    With `-o json` or `-o yaml` (with `--direct`: Ray's own fields):

    ```json
    [{"run": "run-1", "kind": "supervised", "cluster": "rayml",
      "state": "running", "attempt": 2, "progress": 300, "reason": "",
      "created": "2026-11-21T20:15:00+00:00",
      "command": "python train.py"}]
    ```

    `attempt` and `progress` are null as long as there is none.
    """
    environment = load(env)
    with _talking(environment) as runs:
        if direct:
            jobs = _head(runs, environment, cluster).jobs()
            emit(jobs, lambda: _rays_table(jobs), output)
        else:
            listed = [run for run in runs.all() if cluster in (None, run.cluster)]
            supervised = any(run.kind is JobKind.SUPERVISED and not run.finished for run in listed)
            pending = runs.pending() if supervised else {}
            emit([_data(run, pending) for run in listed], lambda: _table(listed, pending), output)


@job_app.command()
def top(env: EnvName, cluster: Cluster = None, watch: Watch = False, output: Output = Format.TABLE) -> None:
    """Show how far each run is that has not ended, how fast, and how much of its time was useful.

    The figures are the last that the run printed: with the library of
    `ray_jobs/`, once per half minute. Goodput is the useful share of the
    run's time, from 0 to 1.

    Exit codes:
    - 0: shown
    - 2: bad input or no access
    - 130: `--watch` was interrupted

    Examples:
    - `ops job top --env dev`
    - `ops job top --env dev --watch`

    With `-o json` or `-o yaml`; a figure that the run did not print is null,
    and a loss that is no number is a text, "nan" or "inf":

    ```json
    [{"run": "run-1", "cluster": "rayml", "state": "running", "reason": "",
      "step": 1200, "steps_per_second": 2.31, "loss": 0.4321,
      "checkpoint_age_seconds": 95, "goodput": 0.931}]
    ```
    """
    from ops.jobs import top as job_top  # noqa: PLC0415
    from ops.watch.live import watch as keep_watching  # noqa: PLC0415

    environment = load(env)
    if watch:
        require_terminal(output, "`-o json` in a loop")
    with _talking(environment) as runs:
        read = partial(job_top.rows, runs.all, cluster)
        if watch:
            try:
                keep_watching(lambda since: job_top.screen(read(), since), console)
            except KeyboardInterrupt:
                raise typer.Exit(130) from None
        found = read()
        emit(found, lambda: job_top.table(found), output)


@job_app.command()
def logs(
    name: RunName,
    env: EnvName,
    cluster: Cluster = None,
    direct: Direct = False,
    storage: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Storage of a run that Kubernetes no longer knows.")
    ] = None,
) -> None:
    """Show the output of a run from its beginning until it ends.

    What neither a log nor Ray has any more is read from the run's storage, if
    the job uses the library ray_resume; what is lost is marked. The storage
    also has the output of a run that Kubernetes no longer knows, after a week.
    Ctrl-C detaches; the job keeps running.

    Exit codes:
    - the job's own exit code; 0 for a run that Kubernetes no longer knows
    - 1: refused, such as an unknown run
    - 2: bad input or no access
    - 130: detached, or the run was stopped

    Examples:
    - `ops job logs run-1 --env dev`
    - `ops job logs run-1 --env dev --storage s3://bucket/ray/runs`
    """
    from ops.jobs import direct as job_direct  # noqa: PLC0415
    from ops.jobs import follow  # noqa: PLC0415
    from ops.jobs.stored.elsewhere import show_kept  # noqa: PLC0415

    environment = load(env)
    with _talking(environment, f"`ops job logs {name} --env {env}` shows it again", direct) as runs:
        if direct:
            code = job_direct.follow(_head(runs, environment, cluster), name, console)
        elif runs.find(name):
            code = follow.follow(runs, name, console)
        else:
            code = 0
            show_kept(runs, name, cluster, storage or _storage(environment), console)
    raise typer.Exit(code)


@job_app.command()
def checkpoint(
    name: RunName,
    env: EnvName,
    cluster: Cluster = None,
    direct: Direct = False,
    timeout: Annotated[
        Duration, typer.Option(parser=duration, metavar="DURATION", help="Give up after this time.")
    ] = Duration(600),
) -> None:
    """Let a running job save a checkpoint now; print its step.

    The job must use the library ray_resume. Ctrl-C detaches; the job saves
    all the same.

    Exit codes:
    - 0: saved
    - 1: not saved in time, or the run is not running
    - 2: bad input or no access
    - 130: detached

    Examples:
    - `ops job checkpoint run-1 --env dev`
    - `ops job checkpoint run-1 --env dev --timeout 30m`
    """
    from ops.jobs.checkpoint import answer, ask, job_of  # noqa: PLC0415

    environment = load(env)
    with _talking(environment, f"`ops job logs {name} --env {env}` shows when it has saved", direct) as runs:
        head = _head(runs, environment, cluster if direct else runs.on_ray(name).cluster)
        line = answer(ask(job_of(head, name), seconds=timeout.seconds))
    say(line)


@job_app.command()
def profile(
    name: RunName,
    *,
    env: EnvName,
    cluster: Cluster = None,
    direct: Direct = False,
    seconds: Annotated[
        float, typer.Option(min=1, max=600, metavar="N", help="Seconds to record; 100 steps at most.")
    ] = 30,
    worker: Annotated[int, typer.Option(min=0, metavar="N", help="Rank of the worker to record.")] = 0,
) -> None:
    """Let one worker of a running job record its steps with PyTorch's profiler.

    The trace lies in the run's storage; the command says where, and how to
    open it. The job must use the library ray_resume. Recording slows the
    worker, and with it the training. Ctrl-C detaches; the worker records all
    the same.

    Exit codes:
    - 0: recorded
    - 1: not recorded in time, or the run is not running
    - 2: bad input or no access
    - 130: detached

    Examples:
    - `ops job profile run-1 --env dev`
    - `ops job profile run-1 --env dev --seconds 60 --worker 3`
    """
    from ops.jobs.checkpoint import job_of  # noqa: PLC0415
    from ops.jobs.profile import profile as profile_of  # noqa: PLC0415

    environment = load(env)
    with _talking(environment, f"`ops job logs {name} --env {env}` shows when it has recorded", direct) as runs:
        head = _head(runs, environment, cluster if direct else runs.on_ray(name).cluster)
        found = profile_of(job_of(head, name), worker=worker, seconds=seconds)
    for line in found.sentences():
        say(line)


@job_app.command("exec", cls=_WithWords)
def execute(
    context: typer.Context,
    name: RunName,
    *,
    env: EnvName,
    worker: Annotated[
        int, typer.Option(min=0, metavar="N", help="Rank of the worker; with --as pytorchjob: number of the pod.")
    ] = 0,
) -> None:
    """Run the command after `--` in the pod of one worker of a running job.

    On Ray, Ray Train's workers are meant: their ranks are those that the
    job's output names. The command gets stdin, and a terminal if there is
    one. It starts in the container's folder, not in the job's. Ctrl-C closes
    the connection; without a terminal, the command may run on in the pod.

    Exit codes:
    - the command's own exit code
    - 1: refused, such as a run that has ended or no such worker
    - 2: bad input or no access
    - 130: interrupted

    Examples:
    - `ops job exec run-1 --env dev -- nvidia-smi`
    - `ops job exec run-1 --env dev --worker 3 -- bash`
    """
    from ops.jobs.pod_of_worker import pod_of, run_in  # noqa: PLC0415

    environment = load(env)
    command = context.meta.get(_WORDS, [])
    if not command:
        fail(f"COMMAND is missing. Fix: write it after `--`: `ops job exec {name} --env {env} -- nvidia-smi`")
    with _talking(environment) as runs:
        code = run_in(runs, pod_of(runs, name, worker), command)
    raise typer.Exit(code)


@job_app.command()
def stop(name: RunName, env: EnvName, cluster: Cluster = None, direct: Direct = False) -> None:
    """Stop a run; its checkpoints stay. A RayJob or PyTorchJob is deleted.

    A job that uses the library ray_resume saves first if it can within a
    minute. With `--direct`, it has three seconds.

    Exit codes:
    - 0: stop requested
    - 1: refused, such as a run that has ended
    - 2: bad input or no access

    Example:
    - `ops job stop run-1 --env dev`
    """
    environment = load(env)
    with _talking(environment) as runs:
        if direct:
            _head(runs, environment, cluster).stop(name)
        else:
            runs.stop(name)
    say(f"stopping {name}; `ops job list --env {env}` shows its state")


def _storage(environment: Environment) -> str:
    """Return where runs are kept unless somebody says otherwise."""
    return f"{environment.fsx.mount_path}/{RAY_DIRECTORY}/runs"


def _packages(environment: Environment, storage: str) -> str:
    """Return the folder in which all nodes see large working directories; no run has such a name."""
    return f"{storage if storage.startswith('/') else _storage(environment)}/.packages"


def _submit_as(
    runs: "Runs",
    request: "RunRequest",
    environment: EksEnvironment,
    upload: "WorkingDirUpload | None",
    *,
    again: bool,
    detach: bool,
    direct: bool,
    in_head: bool,
) -> int:
    from ops.clients import CallerAccount  # noqa: PLC0415
    from ops.jobs import direct as job_direct  # noqa: PLC0415
    from ops.jobs import follow, waking  # noqa: PLC0415

    like = "pods like those of " if request.own_pods else ""
    say(f"{request.name}: {request.command} on {like}RayCluster {request.cluster} of {environment.name}")
    if groups := waking.groups_of(environment, request.cluster):
        for sentence in waking.wakes(environment, CallerAccount(environment), groups):
            say(sentence)
    if in_head:
        pod = job_direct.head_of(runs.core, environment.ray.namespace, request.cluster)
        _bring(upload, environment)
        return job_direct.submit_in_head(runs.core, environment.ray.namespace, pod, request)
    if direct:
        head = _head(runs, environment, request.cluster)
        _bring(upload, environment)
        job_direct.submit(head, request)
        return 0 if detach else job_direct.follow(head, request.name, console)
    job_direct.refuse_simulated(runs.core, environment.ray.namespace, request.cluster)
    if upload:
        runs.require_name(request.name, again=again)
        _bring(upload, environment)
    runs.create(request, again=again)
    if detach:
        say(f"submitted; `ops job logs {request.name} --env {environment.name}` shows its output")
        return 0
    return follow.follow(runs, request.name, console)


def _bring(upload: "WorkingDirUpload | None", environment: EksEnvironment) -> None:
    """Upload a large working directory with the caller's own credentials."""
    from ops.clients import CallerAccount  # noqa: PLC0415

    if upload:
        with _nothing_submitted():
            upload.run(CallerAccount(environment).client("s3"), errors, aside)


@contextmanager
def _nothing_submitted() -> Iterator[None]:
    """End the command after Ctrl-C, before anything was submitted."""
    try:
        yield
    except KeyboardInterrupt:
        fail("interrupted: nothing was submitted. Fix: run the command again", code=130)


def _head(runs: "Runs", environment: EksEnvironment, cluster: str | None) -> Any:
    from ops.jobs import direct as job_direct  # noqa: PLC0415
    from ops.jobs.head_api import HeadApi  # noqa: PLC0415

    pod = job_direct.head_of(runs.core, environment.ray.namespace, runs.cluster(cluster))
    return HeadApi(runs.core, environment.ray.namespace, pod)


@contextmanager
def _talking(environment: EksEnvironment, again: str = "", direct: bool = False) -> Iterator["Runs"]:
    """Yield the environment's runs; report errors, and after Ctrl-C print `again`, the commands to return with."""
    from ops.clients import connect  # noqa: PLC0415
    from ops.errors import UnreachableError  # noqa: PLC0415
    from ops.jobs.checkpoint import CheckpointError  # noqa: PLC0415
    from ops.jobs.head_api import HeadUnreachableError, RayApiError  # noqa: PLC0415
    from ops.jobs.profile import ProfileError  # noqa: PLC0415
    from ops.jobs.run import RunError  # noqa: PLC0415
    from ops.jobs.runs import Runs, as_submitter  # noqa: PLC0415
    from ops.jobs.stored.kept import KeptOutputError  # noqa: PLC0415

    try:
        with connect(environment) as clients, as_submitter():
            yield Runs(clients.kubernetes, environment.ray.namespace)
    except (RunError, CheckpointError, ProfileError, KeptOutputError, HeadUnreachableError, RayApiError) as error:
        fail(str(error), code=1)
    except UnreachableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        more = " (with --direct)" if direct else ""
        fail(f"detached; the job keeps running: {again}{more}" if again else "interrupted", code=130)


def _of_operator(
    context: typer.Context, kind: JobKind, workers: int | None, queue: str | None
) -> "tuple[OwnCluster | None, OwnPods | None]":
    """Return what a RayJob or a PyTorchJob has of its own. End the command if the options do not fit."""
    from ops.jobs.run import OwnCluster, OwnPods  # noqa: PLC0415

    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}

    def first(*names: str) -> str:
        """Return the first of these options that was given; empty if none was."""
        return next((f"--{name.replace('_', '-')}" for name in sorted(given & set(names))), "")

    if "dry_run" in given and (wrong := first("again", "direct", "in_head")):
        fail(f"--dry-run excludes {wrong}. Fix: give one of them")
    if kind is JobKind.SUPERVISED:
        if wrong := first("workers", "queue"):
            fail(f"{wrong} is invalid without --as {_OPERATED}. Fix: leave it out, or add --as {_OPERATED}")
        return None, None
    if first("direct", "in_head"):
        fail(f"--as {kind} excludes --direct and --in-head. Fix: give one of them")
    if wrong := first("max_stalled", "give_up_after"):
        why = "its operator does not know why a job failed"
        fail(f"{wrong} is invalid with --as {kind}: {why}. Allowed: --max-attempts")
    if kind is JobKind.RAYJOB:
        return OwnCluster(workers, queue), None
    if first("pip"):
        fail(f"--pip is invalid with --as {kind}: only Ray installs packages for a job. Fix: use image.pip")
    if wrong := first("min_workers", "max_workers", "wait_for_workers"):
        fail(f"{wrong} is invalid with --as {kind}: torchrun starts all workers or none. Allowed: --workers")
    return None, OwnPods(workers, queue)


def _named(title: str, longest: int) -> str:
    """Return a name for the run: its title and the time (UTC), so that no two runs have the same."""
    time = f"-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "job"
    stem = words if words[0].isalpha() else f"run-{words}"
    return stem[: min(32, longest - len(time))].rstrip("-") + time


def _data(run: "ExistingRun", pending: dict[str, str]) -> dict[str, Any]:
    """Return a run as data for programs."""
    progress = run.state.get("progress", -1)
    return {
        "run": run.name,
        "kind": str(run.kind),
        "cluster": run.cluster,
        "state": run.phase,
        "attempt": run.state.get("attempt"),
        "progress": progress if progress >= 0 else None,
        "reason": _why(run, pending),
        "created": run.created.isoformat(),
        "command": run.command,
    }


def _why(run: "ExistingRun", pending: dict[str, str]) -> str:
    """Return the reason for a run's state: what its supervisor waits for, or why the supervisor has no place."""
    return pending.get(run.name) or str(run.state.get("reason", ""))


def _table(runs: list["ExistingRun"], pending: dict[str, str]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "kind", "RayCluster", "state", "attempt", "progress", "since (UTC)"):
        drawn.add_column(column, no_wrap=True)
    drawn.add_column("why", overflow="fold")
    for run in runs:
        progress = run.state.get("progress", -1)
        drawn.add_row(
            run.name,
            str(run.kind),
            run.cluster,
            run.phase,
            str(run.state.get("attempt", "")),
            str(progress) if progress >= 0 else "",
            f"{run.created:%Y-%m-%d %H:%M}",
            _why(run, pending),
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
