"""Destroy an environment with `ops destroy`, which may be killed at any moment."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rehearsal.run.cdk import CommandError, run
from rehearsal.run.kills import end_or_kill

_WITHIN_SHARE: Final = 0.8
"""The part of a whole run in which a kill is safe to come before the end of the next whole run."""


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
    left = list(kills)
    took = None
    while left:
        log = logs / f"ops-destroy-killed-{len(left)}.log"
        if ended := end_or_kill(argv, project, variables, log, left[0]):
            if ended.code:
                raise CommandError(f"`ops destroy`, run again, ended with exit code {ended.code}; its output: {log}")
            took = ended.seconds
            break
        del left[0]
    run(argv, cwd=project, env=variables, log=logs / "ops-destroy.log", echo=echo)
    return [kill % (_WITHIN_SHARE * took) for kill in left] if took else left
