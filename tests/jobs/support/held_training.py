"""Run a job of ray_jobs/slurm/ without Ray: wait before a step as the test asks, and leave the final weights.

The test puts this file in the place of the job's script, whose own name then begins with `_`.
"""

import importlib
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import torch

# An import of Ray fails, as where it is not installed.
sys.modules["ray"] = None  # type: ignore[assignment]
example: Any = importlib.import_module("example")
torchrun: Any = importlib.import_module("ray_resume.integrations.torchrun")
Checkpoints = importlib.import_module("ray_resume.worker").Checkpoints
SCRIPT = Path(__file__)
RANK = os.environ["RANK"]


def hold(step: int) -> None:
    """Wait after the step in the file `hold`, while the file exists."""
    while (limit := limited()) and step >= limit:
        SCRIPT.with_name(f"held-{RANK}-{limit}").touch()
        time.sleep(0.05)


def limited() -> int | None:
    try:
        return int(SCRIPT.with_name("hold").read_text())
    except FileNotFoundError:
        return None


def hold_before(due: Any) -> Any:
    def due_when_allowed(self: Any, step: int, **words: Any) -> bool:
        hold(step)
        return bool(due(self, step, **words))

    return due_when_allowed


def keep_weights(made: Any, fit: Any) -> tuple[Any, Any]:
    """Let the first worker leave the weights of the network that it made, when its training has ended."""
    networks = []

    def network() -> Any:
        networks.append(made())
        return networks[-1]

    def fit_and_keep(*arguments: Any, **words: Any) -> None:
        fit(*arguments, **words)
        if networks and RANK == "0":
            torch.save(networks[-1].state_dict(), SCRIPT.with_name("weights.pt"))

    return network, fit_and_keep


if SCRIPT.stem == "train_deepspeed":
    import deepspeed

    # On CPUs, DeepSpeed would compile its own collectives in shared memory for minutes; gloo does the same.
    deepspeed.ops.__compatible_ops__ = {}
Checkpoints.due = hold_before(Checkpoints.due)
example.network, torchrun.fit = keep_weights(example.network, torchrun.fit)
runpy.run_path(str(SCRIPT.with_name(f"_{SCRIPT.name}")), run_name="__main__")
