"""Run tiers in order, as many at a time as two cores have room for."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tiers import ROOM, Tier

_EVERY: Final = 0.1
_BUSY: Final = 4
"""Load of a minute for each core above which no tier joins others.

A quiet machine has 2 to 3 with all that fits. Above 10, heartbeats of a rehearsal's nodes come too late, and each
tier takes longer than if it had waited.
"""
_ORDERLY_SECONDS: Final = 60
"""Time for a tier to end after SIGTERM: a rehearsal must stop a control plane."""


@dataclass(frozen=True)
class Result:
    """The result of a tier."""

    tier: Tier
    exit_code: int
    seconds: float
    cpu_seconds: float
    log: Path

    @property
    def green(self) -> bool:
        """Return whether the tier passed."""
        return self.exit_code == 0


class Running:
    """A running tier; stdout and stderr go to a file."""

    def __init__(self, tier: Tier, log: Path, env: Mapping[str, str]) -> None:
        self.tier = tier
        self._log = log
        self._began = time.monotonic()
        argv = [sys.executable, str(Path(__file__).with_name("contained.py")), *shlex.split(tier.command)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def result(self) -> Result | None:
        """Return the result once the tier has ended, else None."""
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        return self._ended(status, usage.ru_utime + usage.ru_stime) if pid else None

    def interrupt(self) -> None:
        """Send SIGTERM to the tier."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> Result:
        """Wait for the tier and return its result; kill it after `deadline` (of time.monotonic)."""
        while not (result := self.result()):
            if time.monotonic() > deadline:
                self._process.kill()
            time.sleep(_EVERY)
        return result

    def _ended(self, status: int, cpu_seconds: float) -> Result:
        self._process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - self._began
        return Result(self.tier, self._process.returncode, seconds, cpu_seconds, self._log)


def run(
    tiers: Sequence[Tier],
    logs: Path,
    *,
    env: Mapping[str, str],
    limit_seconds: float,
    ended: Callable[[Result], None],
) -> None:
    """Run the tiers, and call `ended` at the end of each.

    A tier starts when there is room for it and the tiers before it have started. It may overtake them only if that
    does not delay the first of them. While the machine is busy, none starts beside others. After a failure no tier
    starts, but running tiers may finish. After `limit_seconds`, or if this process is interrupted, all tiers are
    stopped.
    """
    logs.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + limit_seconds
    waiting, running, failed = list(tiers), list[Running](), False
    try:
        while running or (waiting and not failed):
            while (
                not failed
                and (not running or keeps_up())
                and (tier := _next(tiers, waiting, [each.tier for each in running]))
            ):
                waiting.remove(tier)
                running.append(Running(tier, logs / f"{tier.name}.log", env))
            for each in list(running):
                if result := each.result():
                    running.remove(each)
                    failed = failed or not result.green
                    ended(result)
            if time.monotonic() > deadline:
                break
            time.sleep(_EVERY)
    finally:
        for each in running:
            each.interrupt()
        orderly = time.monotonic() + _ORDERLY_SECONDS
        for each in running:
            ended(each.wait(orderly))


def keeps_up() -> bool:
    """Return whether the machine has time for another tier beside those that run."""
    return os.getloadavg()[0] <= _BUSY * (os.cpu_count() or 1)


def _next(order: Sequence[Tier], waiting: Sequence[Tier], running: Sequence[Tier]) -> Tier | None:
    """Return the tier that may start now, else None."""
    for tier in waiting:
        # What a tier before it will find taken: the tiers that overtook, this one included.
        overtaking = [each for each in (*running, tier) if order.index(each) > order.index(waiting[0])]
        if fit((*running, tier)) and (tier is waiting[0] or fit((*overtaking, waiting[0]))):
            return tier
    return None


def fit(tiers: Sequence[Tier]) -> bool:
    """Return whether the tiers may run together: the cores suffice, and no two hold the same folder."""
    held = [each.holds for each in tiers if each.holds]
    return sum(each.cores for each in tiers) <= ROOM and len(held) == len(set(held))
