"""A training with all that `ray_resume.main` takes: datasets, a callback, an end hook, growing steps, a warm start.

The model is one number that each step makes larger, so that a test can read how a run continued.
"""

import argparse
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from ray.tune import Callback
from torch import nn

import ray_resume
from ray_resume import torch_state

HELD = 5
"""The step before which the training waits for the file `go`."""


class Trace(Callback):  # type: ignore[misc]  # Ray is in the jobs' environment only
    """Appends the steps of Ray Train's results to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def on_trial_result(self, *_: Any, result: Mapping[str, Any], **__: Any) -> None:
        with self._file.open("a") as file:
            file.write(f"result {result['step']}\n")


def train(config: dict[str, Any]) -> None:
    checkpoints = ray_resume.Checkpoints(config["run"])
    checkpoints.meter.interval = 0.2
    torch_state.seed_all(7)
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rows = [row["id"] for row in ray.train.get_dataset_shard("numbers").iter_rows()]
    load = partial(torch_state.load, model=model, optimizer=optimizer, rank=0, reseed=7)
    save = partial(torch_state.save, model=model, optimizer=optimizer, rank=0)
    weights = partial(torch_state.load_weights, model=model)
    for step in range(checkpoints.restore(load, weights), config["steps"]):
        while step == HELD and not (Path(config["run"].storage) / "go").exists():
            with checkpoints.meter.waiting():
                time.sleep(0.1)
            checkpoints.meter.step(step, loss=model.weight.item())
        optimizer.zero_grad()
        (-model(torch.ones(1, 1))).sum().backward()
        optimizer.step()
        weight = model.weight.item()
        checkpoints.meter.step(step + 1, loss=weight, tokens=len(rows))
        if checkpoints.due(step + 1, last=step + 1 == config["steps"]):
            checkpoints.save(step + 1, save, {"weight": weight, "rows": sum(rows)})


def finish(trace: Path, outcome: Mapping[str, Any]) -> None:
    """Note the outcome, and fail after 12 steps."""
    with trace.open("a") as file:
        file.write(f"hook {outcome['checkpoint']} {outcome['metrics']['weight']:g}\n")
    if outcome["metrics"]["weight"] == 12:
        raise ConnectionError("the model registry does not answer")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", required=True)
    parser.add_argument("--name", default="job")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-from")
    options = parser.parse_args()
    run = ray_resume.Run.from_environment(options.name, options.storage, every=5, warm_from=options.warm_from)
    os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
    trace = Path(options.storage) / "trace.txt"
    ray_resume.main(
        run,
        train,
        {"steps": options.steps},
        ray_resume.workers(1),
        may_grow=("steps",),
        datasets={"numbers": ray.data.range(4)},
        callbacks=[Trace(trace)],
        on_done=partial(finish, trace),
    )


if __name__ == "__main__":
    main()
