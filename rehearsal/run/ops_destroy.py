"""Destroy an environment with `ops destroy`, which may be killed at any moment."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from embedded_account.paths import CDK_PRELOAD
from rehearsal.run.cdk import run

_SPREAD_SECONDS: Final = 30.0
"""Seconds over which a few kills are spread, so that one destroy meets them all: it takes about as long."""
_LATEST_SECONDS: Final = 6.0
"""The latest kill of many, in seconds: by then `ops destroy` has started the CDK CLI."""
_WITHIN_SHARE: Final = 0.8
"""The part of a whole run in which a kill is safe to come before the end of the next whole run."""


def moments(count: int, seed: int) -> list[float]:
    """Return so many seeded moments, in seconds after a start of `ops destroy`."""
    drawn = random.Random(seed)  # noqa: S311 - no secret
    latest = max(_LATEST_SECONDS, _SPREAD_SECONDS / max(count, 1))
    return [drawn.uniform(0.0, latest) for _ in range(count)]


def destroy(
    environment: str,
    project: Path,
    variables: Mapping[str, str],
    logs: Path,
    *,
    kills: Sequence[float],
    echo: Callable[[str], None],
) -> Sequence[float]:
    """Run `ops destroy` to its end after runs that are killed; return the kills that its end came before.

    The returned kills come earlier than the given ones: no machine and no environment takes a fixed time to be
    destroyed, so that a kill that came too late is brought within the time that this run took.

    A killed run leaves its `cdk destroy` behind, as on a user's machine, and the next one runs beside it. `--force`,
    because the deployer may not ask Kubernetes for running jobs.
    """
    argv = [sys.executable, "-m", "ops", "destroy", "--env", environment, "--yes", "--force"]
    env = {**variables, "NODE_OPTIONS": f"--require={CDK_PRELOAD}"}
    left = list(kills)
    took = None
    while left and not (took := _end(argv, project, env, logs / f"ops-destroy-killed-{len(left)}.log", left[0])):
        del left[0]
    run(argv, cwd=project, env=env, log=logs / "ops-destroy.log", echo=echo)
    return [kill % (_WITHIN_SHARE * took) for kill in left] if took else left


def _end(argv: Sequence[str], project: Path, env: Mapping[str, str], log: Path, seconds: float) -> float | None:
    """Return the seconds that a run took, or None if it was killed after the given ones, before its end."""
    began = time.monotonic()
    with log.open("w") as file:
        child = subprocess.Popen(argv, cwd=project, env=env, stdout=file, stderr=subprocess.STDOUT)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            child.kill()
            child.wait()
    return time.monotonic() - began
