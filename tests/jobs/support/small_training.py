"""A small training with dropout and momentum, slow enough to be interrupted; tests compare its results bit by bit."""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from ray.train import CheckpointConfig
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ray_resume
from ray_resume import torch_state, training
from ray_resume.saving import Rest
from ray_resume.watchdog import PATIENCE, Watchdog


def dataset(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, 8, generator=generator)
    return inputs, inputs.sum(dim=1, keepdim=True).tanh()


def train(config: dict[str, Any]) -> None:
    """Train, and inject the faults that the test requested."""
    faults = config["faults"]
    checkpoints = ray_resume.Checkpoints(config["run"])
    rank, world = dist.get_rank(), dist.get_world_size()
    torch_state.seed_all(config["seed"] + rank)
    torch.set_num_threads(1)
    plain = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(config["dropout"]), nn.Linear(16, 1))
    with torch.no_grad():
        for parameter in plain.parameters():
            dist.broadcast(parameter, 0)
    model = DistributedDataParallel(plain)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    order = checkpoints.data_order(config["samples"], config["batch"], config["seed"])
    inputs, targets = dataset(config["samples"])
    done = checkpoints.restore(
        lambda path: torch_state.load(path, model, optimizer, rank=rank, reseed=config["seed"] + rank)
    )
    for step in range(done, config["steps"]):
        wait_until_allowed(faults, step)
        fail_on_purpose(faults, step, rank)
        optimizer.zero_grad()
        loss = torch.zeros(())
        seen = []
        for indices, weight in order.pieces(step, rank, world, piece=4):
            part = nn.functional.mse_loss(model(inputs[indices]), targets[indices]) * weight
            part.backward()
            loss += part.detach()
            seen += indices if weight else []
        optimizer.step()
        dist.all_reduce(loss)
        record(faults, step, rank, world, seen)
        time.sleep(faults["step_seconds"])
        if checkpoints.due(step + 1, last=step + 1 == config["steps"]):
            write = partial(save, model=model, optimizer=optimizer, rank=rank, faults=faults, step=step + 1)
            checkpoints.save(step + 1, write, {"loss": loss.item() / world})


def record(faults: dict[str, Any], step: int, rank: int, world: int, seen: list[int]) -> None:
    """Record for the test which samples this worker trained on, and its process."""
    with (Path(faults["trace"]) / f"{os.getpid()}.txt").open("a") as trace:
        trace.write(f"{step} {rank} {world} {','.join(map(str, seen))}\n")


def save(
    directory: Path, *, model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, faults: dict[str, Any], step: int
) -> Rest | None:
    """Write a checkpoint, now or in the background, with the requested faults."""
    if not faults["asynchronous"]:
        torch_state.save(directory, model, optimizer, rank=rank)
        spoil(directory, rank, faults, step)
        return None
    rest = torch_state.async_save(directory, model, optimizer, rank=rank)

    def write(group: dist.ProcessGroup | None) -> None:
        rest(group)
        spoil(directory, rank, faults, step)

    return write


def spoil(directory: Path, rank: int, faults: dict[str, Any], step: int) -> None:
    """Add ballast to the files of a checkpoint, or tear them and wait to be killed."""
    if faults["fill"]:
        with (directory / f"ballast-{rank}").open("wb") as file:
            file.write(b"\0" * faults["fill"])
    torn = Path(faults["trace"]) / "torn"
    if step == faults["tear_at"] and rank == 1 and not torn.exists():
        # Almost finished: all files exist, and the last one is incomplete.
        largest = max(directory.iterdir(), key=lambda path: path.stat().st_size)
        with largest.open("r+b") as file:
            file.truncate(10)
        torn.touch()
        time.sleep(3600)


def wait_until_allowed(faults: dict[str, Any], step: int) -> None:
    """Wait before the step in the file `limit`, while the file exists."""
    limit = Path(faults["trace"]) / "limit"
    while limit.exists() and step >= int(limit.read_text()):
        time.sleep(0.02)


def fail_on_purpose(faults: dict[str, Any], step: int, rank: int) -> None:
    if step == faults["bug_at"]:
        raise ValueError("a bug of the train function")
    hung = Path(faults["trace"]) / "hung"
    if step == faults["hang_at"] and rank == 1 and not hung.exists():
        hung.touch()
        time.sleep(3600)


def patient_until(
    hung: Path, attempt: str, look: Callable[[], Mapping[str, int]], patience: float, **more: Any
) -> Watchdog:
    """Return a watchdog that sees progress at each check until a worker hangs, because busy machines start slowly."""
    beats, hung_before = count(), hung.exists()

    def see() -> Mapping[str, int]:
        found = look()
        return found if hung.exists() and not hung_before else {**found, "not hung": next(beats)}

    return Watchdog(attempt, see, patience, **more)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", required=True)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--samples", type=int, default=90)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--worker-failures", type=int, default=3)
    parser.add_argument("--patience", type=float, default=PATIENCE)
    parser.add_argument("--keep", type=int, default=2)
    parser.add_argument("--best")
    parser.add_argument("--step-seconds", type=float, default=0.0)
    parser.add_argument("--fill", type=int, default=0)
    parser.add_argument("--asynchronous", action="store_true")
    for fault in ("tear-at", "bug-at", "hang-at"):
        parser.add_argument(f"--{fault}", type=int, default=-1)
    options = parser.parse_args()
    keep = CheckpointConfig(options.keep, checkpoint_score_attribute=options.best, checkpoint_score_order="min")
    settings = {name: getattr(options, name) for name in ("steps", "samples", "dropout")} | {"batch": 12, "seed": 7}
    names = ("trace", "step_seconds", "asynchronous", "fill", "tear_at", "bug_at", "hang_at")
    faults = {name: getattr(options, name) for name in names}
    try:
        run = ray_resume.Run.from_environment("job", options.storage, every=options.every, keep=keep)
    except ray_resume.InvalidInputError as error:
        parser.exit(2, f"job: {error}\n")

    def loop(config: dict[str, Any]) -> None:
        train({**config, "faults": faults})

    with mock.patch.object(training, "Watchdog", partial(patient_until, Path(options.trace) / "hung")):
        ray_resume.main(
            run,
            loop,
            settings,
            ray_resume.workers(options.workers),
            worker_failures=options.worker_failures,
            patience=options.patience,
        )


if __name__ == "__main__":
    main()
