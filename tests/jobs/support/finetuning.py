"""Run the train function of llm_finetune.py in the processes of a group, without Ray."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import ray.train
import torch
import torch.distributed as dist
from ray.train import CheckpointConfig

import llm_finetune
import ray_resume
from llm_model import Memory, clip
from tests.jobs.support import fsdp2_on_cpu
from tests.jobs.support.tiny_llama import LENGTH

EVERY: Final = 3
DOCUMENTS: Final = 40


class _LostError(Exception):
    """The worker is lost."""


def settings(folder: Path, lora: int, epochs: int) -> dict[str, Any]:
    """Return the settings of a training with the model and the texts in `folder`."""
    return {
        **{"model": str(folder / "model"), "data": str(folder / "train.txt"), "validation": str(folder / "valid.txt")},
        **{"length": LENGTH, "lora": lora, "batch": 6, "epochs": epochs, "seed": 7, "learning_rate": 0.01, "warmup": 3},
    }


def finetune(rank: int, storage: Path, memory: Memory, settings: dict[str, Any], lost_at: int | None) -> None:
    """Train until the end; if `lost_at` is a step, lose the workers there, and train on in the next attempt."""
    fsdp2_on_cpu.allow()
    context = SimpleNamespace(get_world_rank=lambda: rank)
    for attempt, lost in enumerate((None,) if lost_at is None else (lost_at, None), 1):
        run = ray_resume.Run("job", str(storage), attempt, EVERY, CheckpointConfig(num_to_keep=2))
        if rank == 0:
            run.begin(settings)
        dist.barrier()
        with (
            mock.patch.object(ray.train, "get_context", return_value=context),
            mock.patch.object(ray.train, "report"),
            mock.patch.object(llm_finetune, "get_device", return_value=torch.device("cpu")),
            mock.patch.object(llm_finetune, "clip", _losing(clip, lost)),
        ):
            try:
                llm_finetune.train(memory, {**settings, "run": run})
            except _LostError:
                continue
            assert lost is None, "the training never clipped its gradients"


def _losing(then: Callable[..., None], lost: int | None) -> Callable[..., None]:
    steps = iter(range(10**6))

    def lose(*arguments: Any) -> None:
        if next(steps) == lost:
            raise _LostError
        then(*arguments)

    return lose
