"""How the classifier's fine-tuning uses its GPUs and its gradients: without Ray, and without a GPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
import ray.train
import torch
import torch.distributed as dist
from ray.train import CheckpointConfig
from torch import nn

import fsdp_finetune
from ray_resume import Run
from tests.jobs.support.together import together

SETTINGS = {
    **{"model": None, "data": None, "validation": None, "samples": 16, "cpu_offload": False},
    **{"batch": 8, "micro_batch": 4, "epochs": 1, "seed": 7, "learning_rate": 0.01},
}


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(
    ("device", "cpu_offload", "half", "offloads"),
    [
        ("cuda", True, torch.bfloat16, True),
        ("cuda", False, torch.bfloat16, False),
        ("cpu", True, None, False),
    ],
)
def test_gpus_compute_in_bf16_and_offload_on_request(
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    cpu_offload: bool,
    half: torch.dtype | None,
    offloads: bool,
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(fsdp_finetune, "FullyShardedDataParallel", lambda _, **words: asked.update(words))
    monkeypatch.setattr(fsdp_finetune, "init_device_mesh", lambda *_: None)
    config = {**SETTINGS, "cpu_offload": cpu_offload}
    fsdp_finetune._sharded(config, cast("Any", SimpleNamespace(label_count=2)), torch.device(device))
    mixed, offload = asked["mixed_precision"], asked["cpu_offload"]
    assert (mixed and mixed.param_dtype) == half
    assert (mixed and mixed.reduce_dtype) == (half and torch.float32)
    assert bool(offload and offload.offload_params) == offloads


def test_offload_is_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("ray_resume.main", lambda _, __, settings, *___, **____: asked.append(settings["cpu_offload"]))
    for words in ([], ["--cpu-offload"]):
        monkeypatch.setattr("sys.argv", ["fsdp_finetune.py", f"--storage={tmp_path}", *words])
        fsdp_finetune.main()
    assert asked == [False, True]


def train_with_large_gradients(rank: int, storage: Path) -> None:
    """Train, and assert that no step takes a gradient of a norm above 1."""
    run = Run("job", str(storage), 1, 10, CheckpointConfig())
    if rank == 0:
        run.begin({})
    dist.barrier()
    norms: list[float] = []
    step, loss = torch.optim.AdamW.step, nn.functional.cross_entropy

    def note(optimizer: torch.optim.AdamW, *arguments: Any) -> None:
        squares = [
            one.grad.square().sum() for group in optimizer.param_groups for one in group["params"] if one.numel()
        ]
        dist.all_reduce(square := torch.stack(squares).sum())
        norms.append(square.sqrt().item())
        step(optimizer, *arguments)

    with (
        mock.patch.object(ray.train, "get_context", return_value=SimpleNamespace(get_world_rank=lambda: rank)),
        mock.patch.object(ray.train, "report"),
        mock.patch.object(fsdp_finetune, "get_device", return_value=torch.device("cpu")),
        mock.patch.object(nn.functional, "cross_entropy", lambda *arguments: 1000 * loss(*arguments)),
        mock.patch.object(torch.optim.AdamW, "step", note),
    ):
        fsdp_finetune.train({**SETTINGS, "run": run})
    assert norms == pytest.approx([1.0, 1.0], rel=1e-3)


def test_gradients_are_clipped_to_a_norm_of_1_over_all_workers(tmp_path: Path) -> None:
    together(2, train_with_large_gradients, tmp_path / "meeting", tmp_path)
