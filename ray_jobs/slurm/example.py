"""What the examples share: their arguments, generated data, and a network. Replace it by your own."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import ray_resume


def run_and_settings(name: str, text: str | None) -> tuple[ray_resume.Run, dict[str, Any]]:
    """Return the run and its settings from the arguments and the environment; end the program if they are invalid."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storage", default="/fsx/runs", help="where runs are kept; RUN_STORAGE overrides it")
    parser.add_argument("--epochs", type=int, default=3, help="may grow later (%(default)s)")
    parser.add_argument("--samples", type=int, default=512, help="how many samples to generate (%(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="samples of a worker in a step (%(default)s)")
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="(%(default)s)")
    options = parser.parse_args()
    try:
        run = ray_resume.Run.from_environment(name, options.storage, every=options.every)
    except ray_resume.InvalidInputError as error:
        parser.error(str(error))
    except ray_resume.RunFailedError as error:
        sys.exit(f"{parser.prog}: {error}")
    return run, {each: getattr(options, each) for each in ("epochs", "samples", "batch", "seed")}


def device() -> torch.device:
    """Return this worker's GPU, or the CPU."""
    return torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")


def data(samples: int) -> TensorDataset:
    """Return generated samples: nothing is downloaded."""
    inputs = torch.randn(samples, 32, generator=torch.Generator().manual_seed(1))
    return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).tanh())


def network() -> nn.Module:
    """Return the model, with a part that draws random numbers."""
    return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 1))
