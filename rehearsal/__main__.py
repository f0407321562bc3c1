"""`python -m rehearsal`: what `make rehearse`, `make rehearse-down`, `make check` and `make clean` call."""

import fcntl
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

import config
from config import versions
from rehearsal import disk
from rehearsal.kubernetes import binaries
from rehearsal.paths import BINARIES, REPOSITORY, ROOT, run_directory
from rehearsal.processes import ProcessFailure, stop_recorded

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="The rehearsal on this machine.")
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


@app.command()
def run(
    env: Annotated[str, typer.Option("--env", help="Environment: a file of environments/, without .yaml.")] = "dev",
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running after the RayClusters are ready.")] = False,
) -> None:
    """Deploy, watch, change and destroy an environment without an AWS account."""
    from rehearsal.story.tell import tell  # noqa: PLC0415 - `down` must not wait for the AWS SDK

    with _orderly():
        _require_rehearsable(env)
        with _alone(env):
            _end_earlier(run_directory(env))
            code = tell(env, console, keep=keep)
    raise typer.Exit(code)


@app.command()
def drill(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which drills, in order. Without one they are listed.")
    ] = None,
    env: Annotated[str, typer.Option("--env", help="Environment: a file of environments/, without .yaml.")] = "dev",
) -> None:
    """Let something go wrong on purpose, without an AWS account. Exit code 1: a promise was broken."""
    from rehearsal.drills import DRILLS, directories  # noqa: PLC0415 - `down` must not wait for the AWS SDK
    from rehearsal.drills.perform import listing, perform  # noqa: PLC0415

    if not names:
        console.print(listing(list(DRILLS.values())))
        return
    with _orderly():
        if unknown := [name for name in names if name not in DRILLS]:
            raise ProcessFailure(f"there is no drill {', '.join(unknown)}; there are: {', '.join(DRILLS)}")
        _require_rehearsable(env)
        with ExitStack() as locks:
            for directory in directories(names):
                locks.enter_context(_alone(directory))
                _end_earlier(run_directory(directory))
            code = perform([DRILLS[name] for name in names], env, console)
    raise typer.Exit(code)


@app.command()
def job() -> None:
    """Lose a node under a job on real Ray, in pods that run on this machine. Exit code 1: the job did not survive."""
    from rehearsal.job.story import DIRECTORY, rehearse_job  # noqa: PLC0415 - `down` must not wait for the AWS SDK

    with _orderly(), _alone(DIRECTORY):
        _end_earlier(run_directory(DIRECTORY))
        code = rehearse_job(console)
    raise typer.Exit(code)


@app.command()
def build() -> None:
    """Build the control plane's programs, as the first rehearsal does."""
    with _orderly():
        binaries.ensure(BINARIES, console.print)


@app.command()
def down() -> None:
    """End what a kept rehearsal left running."""
    ended = [name for directory in sorted(ROOT.glob("*/")) for name in _end_earlier(directory)]
    console.print(f"ended: {', '.join(ended)}" if ended else "nothing was running")


@app.command()
def actionlint() -> None:
    """Check the workflows of .github with actionlint, which is built from source for this alone."""
    try:
        program = binaries.ensure(BINARIES, console.print, binaries.CHECK)["actionlint"]
    except binaries.BinariesError as error:
        errors.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None
    workflows = sorted(str(path) for path in (REPOSITORY / ".github" / "workflows").glob("*.yml"))
    raise typer.Exit(subprocess.run([str(program), *workflows], check=False).returncode)


@app.command()
def kept() -> None:
    """Say what stays on the disk after `make clean`, where, how large it is, and how to remove it."""
    for each in disk.kept():
        console.print(str(each), soft_wrap=True, markup=False)


def _require_rehearsable(env: str) -> None:
    """Raise ConfigError or ProcessFailure when the environment is wrong, or asks for what no rehearsal has."""
    version = config.load(env).kuberay.version
    if version != versions.KUBERAY:
        raise ProcessFailure(
            f"{env} has KubeRay {version}, and a rehearsal the operator of {versions.KUBERAY} only: to rehearse all "
            "else, leave kuberay.version out meanwhile"
        )


@contextmanager
def _orderly() -> Iterator[None]:
    """End with a message and an exit code, whatever happens inside."""
    # Whoever ends a rehearsal with SIGTERM (a CI time limit) gets the same orderly end as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except (config.ConfigError, binaries.BinariesError, ProcessFailure) as error:
        errors.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        errors.print("interrupted; everything that was started has been ended")
        raise typer.Exit(130) from None


def _end_earlier(directory: Path) -> list[str]:
    """End processes that an earlier run left (kept, or killed before it could clean up); return their names."""
    return stop_recorded(directory / "run")


@contextmanager
def _alone(environment: str) -> Iterator[None]:
    """Hold the environment's lock; ProcessFailure when another rehearsal of it is under way."""
    ROOT.mkdir(exist_ok=True)
    with (ROOT / f"{environment}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProcessFailure(f"a rehearsal of {environment} is under way in this checkout: wait for it") from None
        yield


if __name__ == "__main__":
    sys.exit(app())
