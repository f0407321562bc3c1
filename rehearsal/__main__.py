"""Run `python -m rehearsal`, which `make rehearse`, `make rehearse-down`, `make check` and `make clean` call."""

import atexit
import errno
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import config
from config.facts.versions import SET_DEFAULT, SetName
from embedded_account.kubernetes.building import binaries
from embedded_account.machine.processes import ProcessError, ProgramEndedError, living
from rehearsal import disk, interruption, runs
from rehearsal.paths import BINARIES, JOB, REPOSITORY, SHELL_FILE, run_directory

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="Rehearse deployments on this machine.")
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_FULL: Final = {errno.EDQUOT, errno.ENOSPC}
_UNWRITABLE: Final = _FULL | {errno.EACCES, errno.EPERM, errno.EROFS}


@app.command()
def run(
    env: Annotated[str, typer.Option("--env", help="A file of environments/, without .yaml, or an example.")] = "dev",
    keep: Annotated[
        bool, typer.Option("--keep", help="Stop once the RayClusters are ready, and keep running.")
    ] = False,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="With --keep: real Ray in two workers without GPUs, so that jobs run.")
    ] = False,
    kills: Annotated[
        int,
        typer.Option(
            "--kills",
            min=0,
            help="Kill the first `cdk deploy`, and `ops destroy`, so often at random moments; rerun it.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the random moments.")] = 0,
) -> None:
    """Deploy, watch, change and destroy an environment without an AWS account."""
    from rehearsal.run.kills import moments  # noqa: PLC0415 - `down` must not wait for the AWS SDK
    from rehearsal.run.rehearse import rehearse  # noqa: PLC0415

    with _orderly():
        _require_rehearsable(env)
        if jobs:
            _require_ray(env, keep=keep)
        with _alone(run_directory(env)):
            code = rehearse(env, console, keep=keep, jobs=jobs, kills=moments(kills, seed))
    raise typer.Exit(code)


@app.command()
def drill(
    names: Annotated[
        list[str] | None, typer.Argument(help="The drills to run, in order; without a name, list them.")
    ] = None,
    env: Annotated[str, typer.Option("--env", help="A file of environments/, without .yaml, or an example.")] = "dev",
) -> None:
    """Let something fail on purpose, without an AWS account. Exit code 1: a promise was broken."""
    from rehearsal.drills.perform import listing, perform  # noqa: PLC0415 - `down` must not wait for the AWS SDK
    from rehearsal.drills.table import DRILLS, directories  # noqa: PLC0415

    if not names:
        console.print(listing(list(DRILLS.values())))
        return
    with _orderly():
        if unknown := [name for name in names if name not in DRILLS]:
            raise ProcessError(f"there is no drill {', '.join(unknown)}. Allowed: {', '.join(DRILLS)}")
        _require_rehearsable(env)
        with _alone(*directories(names)):
            code = perform([DRILLS[name] for name in names], env, console)
    raise typer.Exit(code)


@app.command()
def lose(
    what: Annotated[str, typer.Argument(help="The part to lose; without it, list the parts.")] = "",
    env: Annotated[str, typer.Option("--env", help="The environment of the kept rehearsal.")] = "dev",
) -> None:
    """Lose a part of a kept rehearsal, and return: practise what follows."""
    from rehearsal import losses  # noqa: PLC0415 - `down` must not wait for the AWS SDK

    with _orderly():
        if not what:
            for name, loss in losses.LOSSES.items():
                console.print(f"{name:<10}{loss.what}", soft_wrap=True, markup=False)
            return
        lost = losses.lose(what, config.load(env))
    console.print(f"lost: {lost}", soft_wrap=True, markup=False)
    console.print(f"Look: `ops status --env {env}`. What follows: docs/explain/recovery.md", soft_wrap=True)


@app.command()
def job(
    versions: Annotated[SetName, typer.Option(help="The set of versions of Ray and KubeRay.")] = SET_DEFAULT,
) -> None:
    """Lose a node of a job on real Ray, in pods on this machine. Exit code 1: the job did not survive."""
    from rehearsal.job.rehearsal import rehearse_job  # noqa: PLC0415 - `down` must not wait for the AWS SDK

    with _orderly(), _alone(JOB):
        code = rehearse_job(console, versions)
    raise typer.Exit(code)


@app.command()
def build() -> None:
    """Build the control plane's programs, as the first rehearsal does."""
    with _orderly():
        binaries.ensure(BINARIES, console.print)


@app.command()
def versions(
    names: Annotated[list[str] | None, typer.Argument(help="Versions of KubeRay; all by default.")] = None,
    seed: Annotated[
        int | None,
        typer.Option("--sample", help="Only a few drills, with the version that this seed chooses; no page."),
    ] = None,
) -> None:
    """Rehearse, and run the drills, with each KubeRay that can be chosen; write the page of the results."""
    from rehearsal.versions import prove, run_here, sample  # noqa: PLC0415 - `down` must not wait for it

    with _orderly():
        code = prove(names or (), run_here, console.print) if seed is None else sample(seed, run_here, console.print)
    raise typer.Exit(code)


@app.command()
def rights(
    replay: Annotated[
        bool, typer.Option("--replay", help="Record nothing: replay what the last call recorded.")
    ] = False,
) -> None:
    """Take each right away, one at a time, and replay the decisions of rehearsals and tests; write the page."""
    from rehearsal.rights.prove import prove, write  # noqa: PLC0415 - `down` must not wait for the AWS SDK
    from rehearsal.versions import run_here  # noqa: PLC0415

    code = 0
    with _orderly():
        if replay:
            write(console.print)
        else:
            code = prove(run_here, console.print)
    raise typer.Exit(code)


@app.command()
def sets(
    names: Annotated[list[str] | None, typer.Argument(help="Sets of versions; all by default.")] = None,
    seed: Annotated[
        int | None,
        typer.Option("--sample", help="Only a few tests, with the set that this seed chooses; no page."),
    ] = None,
) -> None:
    """Run the jobs' tests and the job's rehearsal with each set of versions; write the page of the results."""
    from rehearsal.sets import make_here, prove, sample  # noqa: PLC0415 - `down` must not wait for it

    with _orderly():
        code = prove(names or (), make_here, console.print) if seed is None else sample(seed, make_here, console.print)
    raise typer.Exit(code)


@app.command()
def upgrades() -> None:
    """Upgrade Kubernetes, KubeRay and Ray while a training runs on real Ray; write the page of the results."""
    from rehearsal.upgrades import prove  # noqa: PLC0415 - `down` must not wait for the AWS SDK

    with _orderly(), _alone(run_directory("upgrades")):
        code = prove(console)
    raise typer.Exit(code)


@app.command()
def pack(file: Annotated[Path, typer.Argument(dir_okay=False, help="The archive to write.")]) -> None:
    """Pack the control plane's programs into an archive, from which REHEARSAL_PROGRAMS takes them on other machines."""
    with _orderly():
        digest = binaries.pack(BINARIES, file, console.print)
    console.print(f"REHEARSAL_PROGRAMS=URL/{file.name}#sha256={digest}", soft_wrap=True, markup=False)


@app.command()
def down(
    force: Annotated[bool, typer.Option("--force", help="Also end running rehearsals.")] = False,
) -> None:
    """End the processes of kept rehearsals. Exit code 1: a rehearsal is still running, and was left alone."""
    ended: list[str] = []
    under_way: list[str] = []
    with _orderly():
        for directory in runs.directories():
            try:
                ended += runs.end_kept(directory, force=force)
                # Its lines name an account that has ended.
                (directory / SHELL_FILE).unlink(missing_ok=True)
            except runs.UnderWayError as error:
                under_way.append(str(error))
    if ended or not under_way:
        console.print(f"ended: {', '.join(ended)}" if ended else "nothing was running", soft_wrap=True)
    for each in under_way:
        errors.print(f"[bold red]error:[/] {escape(each)}", soft_wrap=True)
    if under_way:
        raise typer.Exit(1)


@app.command()
def actionlint() -> None:
    """Check the workflows of .github with actionlint, which is built from source only for this check."""
    with _orderly():
        program = binaries.ensure(BINARIES, console.print, binaries.CHECK)["actionlint"]
    workflows = sorted(str(path) for path in (REPOSITORY / ".github" / "workflows").glob("*.yml"))
    raise typer.Exit(subprocess.run([str(program), *workflows], check=False).returncode)


@app.command()
def clean() -> None:
    """Remove the folders of ended runs; list what stays on the disk, where, and how to remove it."""
    with _orderly():
        for directory in runs.directories():
            if not runs.remove(directory):
                console.print(f"{directory} stays: a rehearsal runs there", soft_wrap=True, markup=False)
    for each in disk.kept():
        console.print(str(each), soft_wrap=True, markup=False)


def _require_rehearsable(env: str) -> None:
    """Raise ConfigError if the environment is invalid, or ProcessError if no rehearsal can run it."""
    environment = config.load_any(env)
    if owner := environment.network.subnets_owner:
        raise ProcessError(
            f"{env} uses subnets of account {owner}, and a rehearsal has one account. Fix: to rehearse all else, leave "
            "network.existing.owner out meanwhile"
        )


def _require_ray(env: str, *, keep: bool) -> None:
    """Raise ProcessError unless this machine can run real Ray in a kept rehearsal of the environment."""
    from rehearsal.job.machine import require_machine  # noqa: PLC0415 - `down` must not wait for the AWS SDK

    if not keep or not config.load(env).ray.clusters:
        raise ProcessError(
            "--jobs is invalid: it is for a kept rehearsal with a RayCluster. Fix: `make rehearse KEEP=1 JOBS=1`"
        )
    require_machine()


@contextmanager
def _orderly() -> Iterator[None]:
    """End with a message and an exit code, whatever is raised inside."""
    # SIGTERM (for example a CI time limit) ends a rehearsal as orderly as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except (config.ConfigError, binaries.BinariesError, ProcessError, ProgramEndedError) as error:
        errors.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None
    except OSError as error:
        # An error that names no file may concern something else, such as a signal, unless the disk is full.
        if error.errno not in (_UNWRITABLE if error.filename else _FULL):
            raise
        place = error.filename or "the output or a file of the rehearsal"
        errors.print(
            f"[bold red]error:[/] {escape(str(place))}: {error.strerror}. "
            "Fix: use a checkout that you may write to, on a disk with free space",
            soft_wrap=True,
        )
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        errors.print("interrupted")
        raise typer.Exit(130) from None


@contextmanager
def _alone(*directories: Path) -> Iterator[None]:
    """Hold the folders of a run, in which no process of an earlier run is left.

    Only a successful end leaves processes running. Raises runs.UnderWayError if another rehearsal holds one of the
    folders.
    """
    with ExitStack() as locks:
        for each in directories:
            locks.enter_context(runs.held(each))
            runs.end(each)
        interrupted: dict[int, str] = {}

        def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
            for each in directories:
                interrupted.update(living(each))
            interruption.interrupt()

        locks.enter_context(interruption.never_lost())
        for number in (signal.SIGTERM, signal.SIGINT):
            locks.callback(signal.signal, number, signal.signal(number, interrupt))
        try:
            yield
        except KeyboardInterrupt:
            _say_interrupted(interrupted, _end_undisturbed(directories))
            raise typer.Exit(130) from None
        except BaseException:
            _end_undisturbed(directories)
            raise


def _end_undisturbed(directories: tuple[Path, ...]) -> dict[int, str]:
    """End the processes of the folders; return those that are still alive. Another Ctrl-C changes nothing."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    interruption.arrived()
    return runs.end_all(directories)


def _say_interrupted(before: dict[int, str], left: dict[int, str]) -> None:
    _expect_jsii_to_be_gone()
    ended = sorted({name for pid, name in before.items() if pid not in left})
    errors.print(f"interrupted; ended: {', '.join(ended) or 'nothing was running'}", soft_wrap=True)
    for pid, name in left.items():
        errors.print(f"[bold red]still running:[/] {escape(name)} (process {pid})", soft_wrap=True)


def _expect_jsii_to_be_gone() -> None:
    """Print no traceback of jsii at exit: Ctrl-C at a terminal also ends its Node, and breaks its pipe."""

    def ignore() -> None:
        hook = sys.unraisablehook
        sys.unraisablehook = lambda error: None if isinstance(error.exc_value, BrokenPipeError) else hook(error)

    # Functions that were registered later run earlier, and `interruption.never_lost` restores its hook before.
    atexit.register(ignore)


if __name__ == "__main__":
    sys.exit(app())
