"""The state with which a PyTorch training resumes exactly: model, optimizer and random number generators.

torch.distributed.checkpoint writes it: every worker writes and reads its own part, and a different number of workers
can read the parts. It works alike for a plain module, DDP and FSDP, on CPU and GPU.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim import Optimizer


def save(directory: Path, model: nn.Module, optimizer: Optimizer, *, rank: int) -> None:
    """Write this worker's part; all workers call it together.

    Raises:
        OSError: a worker could not write; the message is the first such worker's.
    """
    model_state, optimizer_state = get_state_dict(model, optimizer)
    try:
        dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=directory)
    except CheckpointException as error:
        raise OSError(_first_cause(error)) from error
    torch.save(_generators(), directory / _generators_of(rank))


def load(directory: Path, model: nn.Module, optimizer: Optimizer, *, rank: int, reseed: int) -> None:
    """Read what `save` wrote, into the model and the optimizer; all workers call it together.

    The generators continue from their saved state. A worker without one (there are more workers now) starts with seed
    `reseed`.
    """
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": model_state, "optimizer": optimizer_state}
    try:
        dcp.load(state, checkpoint_id=directory)
    except CheckpointException as error:
        raise OSError(_first_cause(error)) from error
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    generators = directory / _generators_of(rank)
    if generators.exists():
        _set_generators(torch.load(generators, weights_only=False))
    else:
        seed_all(reseed)


def load_weights(directory: Path, model: nn.Module) -> None:
    """Read only the model's weights, in a process that does not train."""
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=directory)
    model.load_state_dict(state["model"])


def seed_all(seed: int) -> None:
    """Seed every generator that a training step may use in this process."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _generators_of(rank: int) -> str:
    return f"generators-{rank:05}.pt"


def _generators() -> dict[str, Any]:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        # Only the worker's own device: the node's other devices belong to other workers.
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def _set_generators(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def _first_cause(error: CheckpointException) -> str:
    rank, (cause, _) = min(error.failures.items())
    return f"worker {rank}: {os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else cause}"
