"""Ask the run of RUN_NAME and RUN_STORAGE to save a checkpoint now, and wait until it has.

    python -m ray_resume checkpoint --timeout 600

Exit codes: 0 saved; 1 not saved in time, or there is no such run; 2 bad input.
"""

from __future__ import annotations

import argparse
import os

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.runs import DONE, InvalidInputError, RunFailedError, first_use
from ray_resume.save_requests import SaveRequests
from ray_resume.storage import open_storage


def main() -> None:
    """Parse the command line, and do what it says."""
    parser = argparse.ArgumentParser(
        prog="python -m ray_resume", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("checkpoint", help="ask the run to save now")
    command.add_argument("--timeout", type=float, default=600.0, help="seconds (%(default)g)")
    command.add_argument("--hold", type=float, default=0.0, help="seconds that workers wait afterwards (%(default)g)")
    options = parser.parse_args()
    try:
        print(checkpoint(options.timeout, options.hold), flush=True)
    except InvalidInputError as error:
        parser.exit(2, f"{error}\n")
    except RunFailedError as error:
        parser.exit(1, f"{error}\n")


def checkpoint(timeout: float, hold: float) -> str:
    """Ask the run to save; return a sentence with the step.

    Raises:
        InvalidInputError: a variable is missing or wrong, or the storage cannot be used.
        RunFailedError: the run did not save in time.
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
        saved = SaveRequests(store).save_now(seconds=timeout, hold=hold)
    if saved is None:
        raise RunFailedError(
            f"run {name} did not save within {timeout:g} s. "
            "Fix: check that it trains and calls `due` at each step, or allow more time"
        )
    return f"run {name} saved step {saved.step} ({saved.name})"


if __name__ == "__main__":
    main()
