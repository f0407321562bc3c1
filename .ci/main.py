"""The program behind `.ci/run`: run tiers, show the output of each at its end, and a table at the end of all."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import report
from config.facts import support
from green import Green, Record
from schedule import Result, run
from tiers import TIERS, Tier, drawn

REPOSITORY: Final = Path(__file__).resolve().parent.parent
STATE: Final = Path(".ci", "state")
LIMIT_SECONDS: Final = 80 * 60
"""Longer than any machine needs: a tier that still runs then hangs."""


def main(words: Sequence[str], known: Sequence[Tier] = TIERS, repository: Path = REPOSITORY) -> int:
    """Run the tiers that the words of the command line select; return the exit code."""
    began = time.monotonic()
    arguments = _arguments(words, known, repository)
    named = [tier for tier in known if tier.name in arguments.tiers]
    asked = named or drawn(known, arguments.seed)
    record = Record(repository / STATE / "green", repository)
    skipped = {} if arguments.all else _unchanged(asked, record)
    tiers = [tier for tier in asked if tier.name not in skipped]
    print(f"seed {arguments.seed} chooses the sampled tests; --seed {arguments.seed} repeats them", flush=True)
    if left_out := [tier.name for tier in known if not named and tier not in asked]:
        print(f"not drawn by the seed: {', '.join(left_out)}", flush=True)

    results: list[Result] = []

    def ended(result: Result) -> None:
        results.append(result)
        _show(result)
        if result.green:
            record.write(result.tier)

    set_up = arguments.set_up_seconds
    try:
        _set_up(tiers, repository)
        set_up += time.monotonic() - began
        # tests/skips.py then allows no skip for what a person's machine may lack.
        # config/facts/support.yaml's day counts as today, so that no version's end turns a tier red.
        env = os.environ | {"TEST_SEED": str(arguments.seed), "TEST_STRICT": "1"}
        env[support.TODAY_VARIABLE] = support.table()["date"]
        run(tiers, repository / STATE / "logs", env=env, limit_seconds=LIMIT_SECONDS, ended=ended)
    except subprocess.CalledProcessError as failure:
        print(f"error: `{' '.join(failure.cmd)}` ended with {failure.returncode}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; every tier that ran was ended", flush=True)
    seconds = arguments.set_up_seconds + time.monotonic() - began
    print(f"\n{report.table(asked, results, skipped, set_up_seconds=set_up, seconds=seconds)}", flush=True)
    complaints = report.complaints(tiers, results, check_shares=not named and not skipped)
    for line in complaints:
        print(f"error: {line}", flush=True)
    return 1 if complaints else 0


def _unchanged(asked: Sequence[Tier], record: Record) -> dict[str, Green]:
    found = {tier.name: record.unchanged_since(tier) for tier in asked}
    return {name: green for name, green in found.items() if green}


def _set_up(tiers: Sequence[Tier], repository: Path) -> None:
    """Make what the tiers need in advance, so that no tier's figures include a download."""
    if targets := sorted({target for tier in tiers for target in tier.needs}):
        argv = ["make", f"--jobs={len(targets)}", *targets]
        subprocess.run(argv, cwd=repository, stdin=subprocess.DEVNULL, check=True)


def _show(result: Result) -> None:
    """Print a tier's complete output and its result."""
    print(f"\n=== {result.tier.name}: {result.tier.command}", flush=True)
    sys.stdout.buffer.write(result.log.read_bytes())
    how = "" if result.green else f", FAILED with exit code {result.exit_code}"
    print(f"=== {result.tier.name}: {result.seconds:.0f} s{how}", flush=True)


def _arguments(words: Sequence[str], known: Sequence[Tier], repository: Path) -> argparse.Namespace:
    names = [tier.name for tier in known]
    parser = argparse.ArgumentParser(prog=".ci/run", description="Run the tiers of CI.")
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"run only these. Allowed: {', '.join(names)}")
    parser.add_argument("--seed", type=int, help="choose the sampled tests (default: by the commit)")
    parser.add_argument("--all", action="store_true", help="also run tiers that were green with the same files")
    parser.add_argument("--set-up-seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if unknown := sorted({*arguments.tiers} - {*names}):
        parser.error(f"unknown tier {', '.join(unknown)}. Allowed: {', '.join(names)}")
    if arguments.seed is None:
        arguments.seed = _seed_of_commit(repository)
    return arguments


def _seed_of_commit(repository: Path) -> int:
    argv = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(argv, cwd=repository, capture_output=True, text=True, check=True).stdout
    return int(commit[:8], 16)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
