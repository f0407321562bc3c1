"""Destroy an environment with `ops destroy`, which may be killed at any moment."""

import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from embedded_account.paths import CDK_PRELOAD
from rehearsal.run.cdk import run

LATEST: Final = 25.0
"""Seconds after the start of `ops destroy` until which it may be killed: later it has ended."""


def moments(count: int, seed: int) -> list[float]:
    """Return so many seeded moments, in seconds after a start of `ops destroy`."""
    drawn = random.Random(seed)  # noqa: S311 - no secret
    return [drawn.uniform(0.0, LATEST) for _ in range(count)]


def destroy(
    environment: str,
    project: Path,
    variables: Mapping[str, str],
    logs: Path,
    *,
    kills: Sequence[float],
    echo: Callable[[str], None],
) -> int:
    """Run `ops destroy` to its end after runs that are killed; return how many were killed before their end.

    A killed run leaves its `cdk destroy` behind, as on a user's machine, and the next one runs beside it. `--force`,
    because nobody can ask the simulated Ray for its jobs.
    """
    argv = [sys.executable, "-m", "ops", "destroy", "--env", environment, "--yes", "--force", "--app", "cdk.out"]
    env = {**variables, "NODE_OPTIONS": f"--require={CDK_PRELOAD}"}
    killed = 0
    for number, seconds in enumerate(kills):
        with (logs / f"ops-destroy-killed-{number}.log").open("w") as log:
            child = subprocess.Popen(argv, cwd=project, env=env, stdout=log, stderr=subprocess.STDOUT)
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                killed += 1
            finally:
                child.kill()
                child.wait()
    run(argv, cwd=project, env=env, log=logs / "ops-destroy.log", echo=echo)
    return killed
