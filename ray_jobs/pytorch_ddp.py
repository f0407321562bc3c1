"""Train a small image classifier with PyTorch DDP on Ray Train, in a run that resumes from its last checkpoint.

The images are generated, nothing is downloaded. The same code runs on CPUs (gloo) and on nodes of eight GPUs (NCCL).

    python pytorch_ddp.py --storage /fsx/ray/runs --gpus --workers 8
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import torch
import torch.distributed as dist
from ray.train.torch import get_device
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ray_resume
from arguments import add_elastic_arguments, add_run_arguments, elastic_of, run_of
from ray_resume import torch_state

CLASSES = 10


def images(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images of noise, brighter in the row of the image's class, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (samples,), generator=generator)
    pictures = torch.randn(samples, 1, CLASSES, CLASSES, generator=generator)
    pictures[torch.arange(samples), 0, labels] += 1.0
    return pictures, labels


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(8 * CLASSES * CLASSES, CLASSES),
    )


def train(config: dict[str, Any]) -> None:
    """Train in one worker; Ray Train calls it in each."""
    checkpoints = ray_resume.Checkpoints(config["run"])
    rank, world, device = dist.get_rank(), dist.get_world_size(), get_device()
    torch_state.seed_all(config["seed"])
    model = DistributedDataParallel(network().to(device), device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["learning_rate"], momentum=0.9)
    order = checkpoints.data_order(config["samples"], config["batch"], config["seed"])
    pictures, labels = images(config["samples"], config["seed"])
    # Each worker drops out different neurons.
    torch_state.seed_all(config["seed"] + 1 + rank)
    load = functools.partial(
        torch_state.load, model=model, optimizer=optimizer, rank=rank, reseed=config["seed"] + 1 + rank
    )
    save = functools.partial(torch_state.save, model=model, optimizer=optimizer, rank=rank)
    weights = functools.partial(torch_state.load_weights, model=model)
    steps = config["epochs"] * order.steps_per_epoch
    for step in range(checkpoints.restore(load, weights), steps):
        optimizer.zero_grad()
        loss = torch.zeros((), device=device)
        for indices, weight in order.pieces(step, rank, world, config["micro_batch"]):
            part = nn.functional.cross_entropy(model(pictures[indices].to(device)), labels[indices].to(device)) * weight
            part.backward()
            loss += part.detach()
        optimizer.step()
        checkpoints.meter.step(step + 1, loss=loss)
        if checkpoints.due(step + 1, last=step + 1 == steps):
            dist.all_reduce(loss)
            checkpoints.save(step + 1, save, {"loss": loss.item() / world, "epoch": (step + 1) / order.steps_per_epoch})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_run_arguments(parser, batch=32, epochs=3)
    add_elastic_arguments(parser)
    parser.add_argument("--samples", type=int, default=512, help="how many images to generate (%(default)s)")
    options = parser.parse_args()
    run = run_of(parser, options, "pytorch-ddp")
    names = ("samples", "batch", "micro_batch", "epochs", "seed", "learning_rate")
    settings = {name: getattr(options, name) for name in names}
    workers = ray_resume.workers(options.workers, cpus=options.cpus, gpu=options.gpus)
    elastic = elastic_of(options)
    ray_resume.main(run, train, settings, workers, elastic=elastic, patience=options.patience, may_grow=("epochs",))


if __name__ == "__main__":
    main()
