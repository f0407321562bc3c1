"""Trainings whose workers are started by torchrun or `accelerate launch`, for example under Slurm, without Ray.

    def train(config):
        checkpoints = ray_resume.Checkpoints(config["run"])
        ...

    run = ray_resume.Run.from_environment("my-run", "/fsx/runs", every=100)
    torchrun.main(run, train, {"steps": 1000})

`train` is the function that `ray_resume.main` takes, too. Each worker calls `main`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NoReturn

import torch
import torch.distributed as dist

from ray_resume.checkpoint_store import CheckpointStore, StaleAttemptError
from ray_resume.collective import by_rank_0
from ray_resume.runs import InvalidInputError, Run, RunFailedError
from ray_resume.storage import DamagedError, open_storage
from ray_resume.worker import completing

__all__ = ["fit", "main"]

_EXPECTED: Final = (InvalidInputError, RunFailedError)


def main(
    run: Run, train: Callable[[dict[str, Any]], None], settings: Mapping[str, Any], *, may_grow: Collection[str] = ()
) -> NoReturn:
    """Train until the run is done and end the process: 0 done, 1 failed, 2 bad input. See `fit`.

    torchrun itself ends with 1 whenever a worker does not end with 0.
    """
    code = 1
    try:
        fit(run, train, settings, may_grow=may_grow)
        code = 0
    except (DamagedError, InvalidInputError, StaleAttemptError) as error:
        print(f"{run.name}: {error}", file=sys.stderr)
        code = 2
    except RunFailedError as error:
        print(f"{run.name}: {error}", file=sys.stderr)
    except BaseException:  # noqa: BLE001 - the process ends here, whatever it is
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not by the process group's end, which can wait for ever shortly after a collective (gloo, PyTorch 2.6).
    os._exit(code)


def fit(
    run: Run, train: Callable[[dict[str, Any]], None], settings: Mapping[str, Any], *, may_grow: Collection[str] = ()
) -> None:
    """Train until the run is done; do nothing if it is done already. All workers call it together.

    It makes the process group from the launcher's variables, unless there is one: NCCL for GPUs, gloo for CPUs.

    Args:
        run: the attempt; all workers take that of rank 0.
        train: the train function; its argument is `settings` and, as "run", the run.
        settings: values that must stay the same for the whole run; JSON must be able to hold them.
        may_grow: names of settings whose numbers may become larger, such as "epochs": a run that is done trains on.

    Raises:
        InvalidInputError: the storage cannot be written, or the run's name is in use.
        RunFailedError: the storage failed at the start.
        StaleAttemptError: a newer attempt of the run has begun.
    """
    _meet()
    run = by_rank_0(lambda: run)
    if by_rank_0(lambda: run.is_done(run.begin(settings, may_grow)), errors=_EXPECTED):
        return
    with completing():
        train({**settings, "run": run})
    by_rank_0(lambda: _finish(run), errors=_EXPECTED)


def _meet() -> None:
    """Make the process group from the launcher's variables; a process without them trains alone."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group()


def _finish(run: Run) -> None:
    storage = open_storage(run.storage, run.name)
    run.finish(storage, CheckpointStore(storage).outcome())
