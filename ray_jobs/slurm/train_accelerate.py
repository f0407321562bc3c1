"""Train with Hugging Face Accelerate in a run that resumes, also within an epoch: `sbatch train_accelerate.sbatch`.

An Accelerator takes rank and nodes from torchrun: there is no configuration file for each node.
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader

import ray_resume
from example import data, network, run_and_settings
from ray_resume import torch_state
from ray_resume.integrations import torchrun
from ray_resume.integrations.accelerate import Resume


def train(config: dict[str, Any]) -> None:
    """Train in one worker; torchrun starts it for each GPU."""
    torch_state.seed_all(config["seed"])
    checkpoints = ray_resume.Checkpoints(config["run"])
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
    )
    plain = network()
    model, optimizer, loader = accelerator.prepare(
        plain,
        torch.optim.AdamW(plain.parameters(), lr=1e-2),
        DataLoader(data(config["samples"]), batch_size=config["batch"], shuffle=True),
    )
    resume = Resume(checkpoints, accelerator)
    for inputs, targets in resume.batches(loader, config["epochs"]):
        loss = nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        resume.after_batch({"loss": loss})


if __name__ == "__main__":
    run, settings = run_and_settings("train-accelerate", __doc__)
    torchrun.main(run, train, settings, may_grow=("epochs",))
