"""Ask a run to save, or show what its folder says.

    python -m ray_resume checkpoint --timeout 600      the run of RUN_NAME and RUN_STORAGE saves now
    python -m ray_resume profile --seconds 30          a worker of this run records its steps
    python -m ray_resume goodput /fsx/ray/runs/RUN     how much of its time was useful, and what the rest was
    python -m ray_resume output /fsx/ray/runs/RUN      what its jobs printed, in the form that `ops job logs` reads

Exit codes: 0 done; 1 not saved or profiled in time, or there is no such run; 2 bad input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.extending import DONE
from ray_resume.output.kept import lines as lines_of_output
from ray_resume.requests.profiles import LONGEST_SECONDS, ProfileRequests
from ray_resume.requests.save_requests import SaveRequests
from ray_resume.runs import InvalidInputError, RunFailedError, first_use
from ray_resume.storage import open_storage
from ray_resume.telemetry.goodput import Goodput, goodput


def main() -> None:
    """Parse the command line, and do what it says."""
    parser = argparse.ArgumentParser(
        prog="python -m ray_resume",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    saving = commands.add_parser("checkpoint", help="ask the run to save now")
    saving.add_argument("--timeout", type=float, default=600.0, help="seconds (%(default)g)")
    saving.add_argument("--hold", type=float, default=0.0, help="seconds that workers wait afterwards (%(default)g)")
    saving.set_defaults(run=lambda options: checkpoint(options.timeout, options.hold))
    profiling = commands.add_parser("profile", help="ask a worker of the run to record its steps")
    profiling.add_argument("--seconds", type=float, default=30.0, help="seconds of steps (%(default)g)")
    profiling.add_argument("--worker", type=int, default=0, help="rank of the worker (%(default)s)")
    profiling.add_argument("--timeout", type=float, default=600.0, help="seconds until it begins (%(default)g)")
    profiling.set_defaults(run=lambda options: profile(options.worker, options.seconds, options.timeout))
    showing = commands.add_parser("output", help="show what the jobs of a run printed, packed as lines of ASCII")
    showing.add_argument("folder", metavar="FOLDER", help="the run's folder, or its address: s3://bucket/prefix/RUN")
    showing.add_argument("--job", help="submission id of one job (default: all)")
    showing.set_defaults(run=lambda options: output_of(options.folder, options.job))
    telling = commands.add_parser("goodput", help="show how much of a run's time was useful, and what the rest was")
    telling.add_argument("folder", metavar="FOLDER", help="the run's folder, or its address: s3://bucket/prefix/RUN")
    telling.set_defaults(run=lambda options: goodput_of(options.folder))
    options = parser.parse_args()
    try:
        print(options.run(options), flush=True)
    except InvalidInputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except RunFailedError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def checkpoint(timeout: float, hold: float) -> str:
    """Ask the run to save; return a sentence with the step.

    Raises:
        InvalidInputError: a variable is missing or wrong, or the storage cannot be used.
        RunFailedError: the run did not save in time.
    """
    with _training_run() as (name, store):
        saved = SaveRequests(store).save_now(seconds=timeout, hold=hold)
    if saved is None:
        raise RunFailedError(
            f"run {name} did not save within {timeout:g} s. "
            "Fix: check that it trains and calls `due` at each step, or allow more time"
        )
    return f"run {name} saved step {saved.step} ({saved.name})"


def profile(worker: int, seconds: float, timeout: float) -> str:
    """Ask a worker of the run for a profile; return the answer as JSON, with the run's name.

    Raises:
        InvalidInputError: an argument or variable is wrong, or the storage cannot be used.
        RunFailedError: there is no profile.
    """
    if not 0 < seconds <= LONGEST_SECONDS or worker < 0:
        raise InvalidInputError(
            f"a profile of {seconds:g} s of worker {worker} is invalid. "
            f"Allowed: up to {LONGEST_SECONDS:g} s; workers from 0"
        )
    with _training_run() as (name, store):
        answer = ProfileRequests(store.storage).profile(worker, seconds=seconds, timeout=timeout + seconds)
    if answer is None:
        raise RunFailedError(
            f"worker {worker} of run {name} was not profiled within {timeout + seconds:g} s. "
            "Fix: check that it trains and calls `due` at each step, or allow more time"
        )
    if not answer.trace:
        raise RunFailedError(
            f"worker {worker} of run {name} was not profiled. Fix: correct what the reason names: {answer.reason}"
        )
    return json.dumps({"run": name, **asdict(answer)})


@contextlib.contextmanager
def _training_run() -> Iterator[tuple[str, CheckpointStore]]:
    """Yield the name and the store of the run that the variables name.

    Raises:
        InvalidInputError: a variable is missing or wrong, or the storage cannot be used.
        RunFailedError: there is no such run, or it is done.
    """
    name, storage = os.environ.get("RUN_NAME", ""), os.environ.get("RUN_STORAGE", "")
    if not name or not storage:
        raise InvalidInputError("RUN_NAME and RUN_STORAGE are not set. Fix: set both to the run's")
    with first_use(storage, "used"):
        store = CheckpointStore(open_storage(storage, name))
        if store.storage.read("run.json") is None:
            raise RunFailedError(f"there is no run {name} in {storage}. Fix: name a run of the library")
        if store.storage.read(DONE) is not None:
            raise RunFailedError(f"run {name} is done. Allowed: runs that train")
        yield name, store


def output_of(folder: str, job: str | None) -> str:
    """Return lines with the kept output of a run's jobs.

    Raises:
        InvalidInputError: the folder cannot be read.
        RunFailedError: the storage cannot be read now.
    """
    storage, _, name = folder.rstrip("/").rpartition("/")
    with first_use(folder, "read"):
        return "\n".join(lines_of_output(open_storage(storage, name), job))


def goodput_of(folder: str) -> str:
    """Return what a run's folder says of its time.

    Raises:
        InvalidInputError: the folder is not that of a run, or cannot be read.
        RunFailedError: the storage cannot be read now.
    """
    storage, _, name = folder.rstrip("/").rpartition("/")
    with first_use(folder, "read"):
        store = CheckpointStore(open_storage(storage, name))
        if not store.writers():
            raise InvalidInputError(
                f"run {folder!r} is invalid: no workers have begun there. Allowed: the folder of a run"
            )
        return "\n".join(lines(name, goodput(store)))


def lines(run: str, found: Goodput) -> list[str]:
    """Return a run's goodput for people: the useful share, and each loss with its share."""
    paid = found.paid or 1.0
    return [
        f"run {run}: goodput {found.share:.1%}, {found.useful:,.0f} s of {found.paid:,.0f} s",
        *(f"lost to {cause:<15}{seconds:>10,.0f} s{seconds / paid:>8.1%}" for cause, seconds in found.lost.items()),
    ]


if __name__ == "__main__":
    main()
