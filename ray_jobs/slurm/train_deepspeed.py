"""Train with DeepSpeed's ZeRO, stage 2, in a run that resumes: `sbatch train_deepspeed.sbatch`.

An engine takes rank and nodes from torchrun: there is no hostfile, and no ssh between nodes.
"""

from __future__ import annotations

import functools
from typing import Any

import deepspeed
import torch.distributed as dist
from torch import nn

import ray_resume
from example import data, network, run_and_settings
from ray_resume import torch_state
from ray_resume.integrations import deepspeed as deepspeed_state
from ray_resume.integrations import torchrun


def train(config: dict[str, Any]) -> None:
    """Train in one worker; torchrun starts it for each GPU."""
    checkpoints = ray_resume.Checkpoints(config["run"])
    rank, world = dist.get_rank(), dist.get_world_size()
    torch_state.seed_all(config["seed"])
    plain = network()
    engine, *_ = deepspeed.initialize(
        model=plain,
        model_parameters=plain.parameters(),
        config={
            "train_micro_batch_size_per_gpu": config["batch"],
            # PyTorch's Adam: DeepSpeed would compile its own on each node.
            "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
            "zero_optimization": {"stage": 2},
        },
    )
    torch_state.seed_all(config["seed"] + 1 + rank)
    samples = data(config["samples"])
    order = checkpoints.data_order(len(samples), config["batch"] * world, config["seed"])
    load = functools.partial(deepspeed_state.load, engine=engine, reseed=config["seed"] + 1 + rank)
    save = functools.partial(deepspeed_state.save, engine=engine)
    steps = config["epochs"] * order.steps_per_epoch
    for step in range(checkpoints.restore(load), steps):
        [(indices, weight)] = order.pieces(step, rank, world, config["batch"])
        inputs, targets = (part.to(engine.device) for part in samples[indices])
        loss = nn.functional.mse_loss(engine(inputs), targets) * weight
        engine.backward(loss)
        engine.step()
        checkpoints.meter.step(step + 1, loss=loss)
        if checkpoints.due(step + 1, last=step + 1 == steps):
            checkpoints.save(step + 1, save, {"loss": loss})


if __name__ == "__main__":
    run, settings = run_and_settings("train-deepspeed", __doc__)
    torchrun.main(run, train, settings, may_grow=("epochs",))
