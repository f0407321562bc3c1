"""Show what a run's folder says: `python -m ray_resume goodput /fsx/ray/runs/RUN`."""

from __future__ import annotations

import argparse
import sys

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.storage import StorageError, open_storage
from ray_resume.telemetry.goodput import Goodput, goodput


def main() -> int:
    """Run a command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ray_resume", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("goodput", help="show how much of a run's time was useful, and what the rest was")
    command.add_argument("run", metavar="FOLDER", help="the run's folder, or its address: s3://bucket/prefix/RUN")
    folder = parser.parse_args().run.rstrip("/")
    storage, _, name = folder.rpartition("/")
    try:
        store = CheckpointStore(open_storage(storage, name))
        if not store.writers():
            parser.error(f"run {folder!r} is invalid: no workers have begun there. Allowed: the folder of a run")
        print("\n".join(lines(name, goodput(store))))
    except (StorageError, OSError) as error:
        parser.error(f"run {folder!r} cannot be read: {error}")
    return 0


def lines(run: str, found: Goodput) -> list[str]:
    """Return a run's goodput for people: the useful share, and each loss with its share."""
    paid = found.paid or 1.0
    return [
        f"run {run}: goodput {found.share:.1%}, {found.useful:,.0f} s of {found.paid:,.0f} s",
        *(f"lost to {cause:<15}{seconds:>10,.0f} s{seconds / paid:>8.1%}" for cause, seconds in found.lost.items()),
    ]


if __name__ == "__main__":
    sys.exit(main())
