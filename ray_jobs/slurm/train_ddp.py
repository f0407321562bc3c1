"""Train with PyTorch DDP under torchrun, in a run that resumes from its last checkpoint: `sbatch train_ddp.sbatch`."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ray_resume
from example import data, device, network, run_and_settings
from ray_resume import torch_state
from ray_resume.integrations import torchrun


def train(config: dict[str, Any]) -> None:
    """Train in one worker; torchrun starts it for each GPU."""
    checkpoints = ray_resume.Checkpoints(config["run"])
    rank, world = dist.get_rank(), dist.get_world_size()
    torch_state.seed_all(config["seed"])
    model = DistributedDataParallel(network().to(device()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    # Each worker drops out different neurons.
    torch_state.seed_all(config["seed"] + 1 + rank)
    samples = data(config["samples"])
    order = checkpoints.data_order(len(samples), config["batch"] * world, config["seed"])
    load = functools.partial(
        torch_state.load, model=model, optimizer=optimizer, rank=rank, reseed=config["seed"] + 1 + rank
    )
    save = functools.partial(torch_state.save, model=model, optimizer=optimizer, rank=rank)
    steps = config["epochs"] * order.steps_per_epoch
    for step in range(checkpoints.restore(load), steps):
        optimizer.zero_grad()
        loss = torch.zeros((), device=device())
        for indices, weight in order.pieces(step, rank, world, config["batch"]):
            inputs, targets = (part.to(device()) for part in samples[indices])
            part = nn.functional.mse_loss(model(inputs), targets) * weight
            part.backward()
            loss += part.detach()
        optimizer.step()
        checkpoints.meter.step(step + 1, loss=loss)
        if checkpoints.due(step + 1, last=step + 1 == steps):
            checkpoints.save(step + 1, save, {"loss": loss})


if __name__ == "__main__":
    run, settings = run_and_settings("train-ddp", __doc__)
    torchrun.main(run, train, settings, may_grow=("epochs",))
