"""Training runs that resume from their last checkpoint, whoever starts them again.

The contract with the program or person that starts a job (usually the job supervisor):

    RUN_NAME      the run: the same for every attempt, and the name of its folder; default: the job's own
    RUN_ATTEMPT   1, 2, 3, …: the number of this attempt; default: one more than the newest attempt that began
    RUN_SERIES    whose count RUN_ATTEMPT is: another submitter of the run begins with 1 again, and is continued from
                  the attempts in the storage; letters, digits and dashes. By hand, set neither of the two. In a job of
                  Slurm, both come from the job's number and SLURM_RESTART_COUNT
    RUN_STORAGE   where runs are kept: a path that every node sees (/fsx/ray/runs) or s3://bucket/prefix
    RUN_MEMORY_TIER
                  the address of the memory tier that keeps checkpoints in the memory of the nodes; default: none
    RUN_MAX_WORKERS, RUN_MIN_WORKERS, RUN_WAIT_FOR_WORKERS
                  how many workers train, with how few the run continues, and after how many seconds without resources
                  for all; default: the script's numbers (ray_resume.Elastic)

A job's exit code says how it ended:

    0   the run is done, or was done before
    1   training failed or stalled (ray_resume.watchdog), or its storage failed temporarily: another attempt would
        resume from the last checkpoint
    2   the job cannot work (an invalid argument; storage that is missing, refuses access or is full; a run name in
        use): another attempt would end the same way

The files of a run:

    <RUN_STORAGE>/<RUN_NAME>/checkpoints/<step>@<attempt>.<group>/   a checkpoint, once manifest.json is in it
    <RUN_STORAGE>/<RUN_NAME>/memory/                                 which checkpoints are in the memory of the nodes
    <RUN_STORAGE>/<RUN_NAME>/attempts/                               which workers began, and from which checkpoint
    <RUN_STORAGE>/<RUN_NAME>/requests/                               who wants a checkpoint now (python -m ray_resume)
    <RUN_STORAGE>/<RUN_NAME>/telemetry/                              what the workers did with their time
    <RUN_STORAGE>/<RUN_NAME>/output/                                 what the jobs printed
    <RUN_STORAGE>/<RUN_NAME>/profiles/                               profiles (python -m ray_resume profile)
    <RUN_STORAGE>/<RUN_NAME>/tracking/                               the loggers' own records (ray_resume.tracking)
    <RUN_STORAGE>/<RUN_NAME>/tensorboard/                            TensorBoard's files
    <RUN_STORAGE>/<RUN_NAME>/ray_train/                              Ray Train's record of an elastic run
    <RUN_STORAGE>/<RUN_NAME>/run.json                                settings that stay the same, or only grow
    <RUN_STORAGE>/<RUN_NAME>/DONE.json                               the run is done; there is no more training
    <RUN_STORAGE>/<RUN_NAME>/earlier_ends.json                       when it was done before it was extended
    <RUN_STORAGE>/<RUN_NAME>/                                        the rest is Ray Train's own record of the run

A minimal job:

    def train(config):
        checkpoints = ray_resume.Checkpoints(config["run"])
        model, optimizer = ...
        done = checkpoints.restore(lambda path: torch_state.load(path, model, optimizer, ...))
        for step in range(done, config["steps"]):
            ...
            if checkpoints.due(step + 1, last=step + 1 == config["steps"]):
                checkpoints.save(step + 1, lambda path: torch_state.save(path, model, optimizer, ...), {"loss": loss})

    run = ray_resume.Run.from_environment("my-run", "/fsx/ray/runs", every=100)
    ray_resume.main(run, train, {"steps": 1000}, ray_resume.workers(16, gpu=True))

Without Ray, under torchrun: ray_resume.integrations.torchrun.main(run, train, {"steps": 1000})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ray_resume.checkpoint_store import Keep
    from ray_resume.elastic.sizes import Elastic
    from ray_resume.output.keeper import keep_output
    from ray_resume.runs import InvalidInputError, Run, RunFailedError, first_use
    from ray_resume.training import fit, main, workers
    from ray_resume.worker import Checkpoints

__version__ = "0.2.0"

__all__ = [
    "Checkpoints",
    "Elastic",
    "InvalidInputError",
    "Keep",
    "Run",
    "RunFailedError",
    "first_use",
    "fit",
    "keep_output",
    "main",
    "workers",
]

_MODULES: Final = {
    **dict.fromkeys(("InvalidInputError", "Run", "RunFailedError", "first_use"), "runs"),
    **dict.fromkeys(("fit", "main", "workers"), "training"),
    "Checkpoints": "worker",
    "Elastic": "elastic.sizes",
    "Keep": "checkpoint_store",
    "keep_output": "output.keeper",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: programs beside a training (output/) do without Ray and PyTorch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
