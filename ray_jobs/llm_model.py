"""A causal language model from a Hugging Face folder, in shards: no worker ever holds the whole model.

The model is built without weights, on PyTorch's meta device. Then every worker reads weights from the folder's
safetensors files: with FSDP1 one transformer block after the other, of which it keeps its shard, with FSDP2 its shards
only.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import init_empty_weights
from peft import LoraConfig, inject_adapter_in_model
from safetensors import safe_open
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

INDEX = "model.safetensors.index.json"
ONLY = "model.safetensors"


class InvalidModelError(Exception):
    """A model's folder cannot be used; the message names it and what is allowed."""


@dataclass(frozen=True)
class Memory:
    """How a model is spread over the workers' memory; another attempt of a run may do it differently.

    `fsdp` is 1 or 2. 0 means 2 on GPUs, and 1 on CPUs: PyTorch 2.6's `fully_shard` fails there, because its CPU streams
    have no `record_event` and because gloo cannot average (`ReduceOp.AVG`).
    """

    micro_batch: int
    fsdp: int = 0
    activation_checkpointing: bool = False

    def version(self, device: torch.device) -> int:
        """Return the version of FSDP on `device`."""
        return self.fsdp or (1 if device.type == "cpu" else 2)


def skeleton(folder: str, lora: int) -> PreTrainedModel:
    """Return a folder's model without weights; if `lora` is not 0, with adapters of that rank, and the rest frozen.

    Raises:
        InvalidModelError: there is no such model in the folder, or its weights are not all there.
    """
    if not (Path(folder) / "config.json").is_file():
        raise InvalidModelError(f"model folder {folder} is invalid: there is no config.json in it")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        with init_empty_weights(include_buffers=False):
            model = AutoModelForCausalLM.from_config(config, torch_dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise InvalidModelError(f"model folder {folder} is invalid: {str(error).splitlines()[0]}") from error
    if not model._no_split_modules:
        raise InvalidModelError(
            f"model folder {folder} is invalid: {type(model).__name__} does not name its transformer blocks. "
            "Allowed: models with `_no_split_modules`"
        )
    # The empty weights are tied only now: each got a place of its own.
    model.tie_weights()
    if lora:
        adapters = LoraConfig(
            r=lora,
            lora_alpha=2 * lora,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
            base_model_name_or_path=folder,
        )
        inject_adapter_in_model(adapters, model, low_cpu_mem_usage=True)
    return model


class Weights:
    """The weights of a model: those in the safetensors files of its folder, and first values of its adapters."""

    def __init__(self, folder: str, model: nn.Module, seed: int) -> None:
        """Find the weights of a model without weights that `skeleton` returned.

        Raises:
            InvalidModelError: a weight is in none of the files.
        """
        self._folder = Path(folder)
        self._seed = seed
        self._file_of = _files(self._folder)
        names: dict[nn.Parameter, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, []).append(name.replace(".base_layer.", "."))
        # By module and not by parameter: FSDP2 replaces the parameters.
        self._names = {
            (module, name): names[parameter]
            for module in model.modules()
            for name, parameter in module.named_parameters(recurse=False)
        }
        for tied in names.values():
            if not is_adapter(tied[0]) and self._stored(tied) is None:
                raise InvalidModelError(f"model folder {folder} is invalid: {tied[0]} is in none of its files")

    def fill(self, root: nn.Module, device: torch.device) -> None:
        """Give `root` weights on `device`, except where it has weights. Of a DTensor, only the shard is read."""
        filled: dict[nn.Parameter, nn.Parameter] = {}
        for module in root.modules():
            for name, empty in list(module.named_parameters(recurse=False)):
                if empty.is_meta:
                    if empty not in filled:
                        filled[empty] = self._filled(empty, self._names[module, name], device)
                    setattr(module, name, filled[empty])

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is in the jobs' environment only
    def _filled(self, empty: nn.Parameter, names: list[str], device: torch.device) -> nn.Parameter:
        if not isinstance(empty, DTensor):
            whole = torch.empty(empty.shape, dtype=empty.dtype, device=device)
            self._read(names, empty.shape, slice(None), whole)
            return nn.Parameter(whole, requires_grad=empty.requires_grad)
        shape, mesh = empty.shape, empty.device_mesh
        local = empty.to_local()
        first = mesh.get_local_rank() * -(-shape[0] // mesh.size())
        mine = torch.empty(local.shape, dtype=local.dtype, device=device)
        if len(local):
            self._read(names, shape, slice(first, first + len(local)), mine)
        shard = DTensor.from_local(mine, mesh, empty.placements, run_check=False, shape=shape, stride=empty.stride())
        return nn.Parameter(shard, requires_grad=empty.requires_grad)

    def _read(self, names: list[str], shape: torch.Size, rows: slice, into: torch.Tensor) -> None:
        stored = self._stored(names)
        if stored is not None:
            into.copy_(_opened(self._folder / self._file_of[stored]).get_slice(stored)[rows])
        else:
            into.copy_(_first(names[0], shape, self._seed)[rows])

    def _stored(self, names: list[str]) -> str | None:
        return next((name for name in names if name in self._file_of), None)


def sharded(model: PreTrainedModel, weights: Weights, memory: Memory, device: torch.device) -> nn.Module:
    """Return the model with its weights, sharded over all workers, each transformer block as a unit of its own.

    On a GPU it computes in bf16; the weights that are trained and the sums of gradients are float32.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    half = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32} if device.type == "cuda" else {}
    kinds = set(model._no_split_modules)
    blocks = [
        (parent, name, block)
        for parent in model.modules()
        for name, block in parent.named_children()
        if type(block).__name__ in kinds
    ]
    inner = checkpoint_wrapper if memory.activation_checkpointing else _unchanged
    if memory.version(device) == 1:
        shard = functools.partial(
            FullyShardedDataParallel,
            # With a mesh the checkpoint's parts are DTensors: the older sharded tensors cannot be empty at a worker.
            device_mesh=mesh,
            device_id=device,
            use_orig_params=True,
            mixed_precision=MixedPrecision(**half) if half else None,
        )
        for parent, name, block in blocks:
            weights.fill(block, device)
            setattr(parent, name, shard(inner(block)))
        weights.fill(model, device)
        return shard(model)
    for parent, name, block in blocks:
        unit = inner(block)
        setattr(parent, name, unit)
        fully_shard(unit, mesh=mesh, mp_policy=MixedPrecisionPolicy(**half))
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(**half))
    weights.fill(model, device)
    return model


@contextlib.contextmanager
def accumulating(model: nn.Module, *, last: bool) -> Iterator[None]:
    """Add up gradients within each worker in this block; only the `last` of a step adds them up over the workers."""
    if isinstance(model, FullyShardedDataParallel):
        with contextlib.nullcontext() if last else model.no_sync():
            yield
    else:
        model.set_requires_gradient_sync(last)
        yield


def clip(model: nn.Module, norm: float) -> None:
    """Scale the gradients down to a norm of at most `norm` over all workers."""
    if isinstance(model, FullyShardedDataParallel):
        model.clip_grad_norm_(norm)
    else:
        nn.utils.clip_grad_norm_(model.parameters(), norm)


def is_adapter(name: str) -> bool:
    """Return whether a parameter with this name belongs to an adapter."""
    return ".lora_" in name


def _unchanged(block: nn.Module) -> nn.Module:
    return block


def _files(folder: Path) -> dict[str, str]:
    """Return the name of the file that has each tensor."""
    if (folder / INDEX).is_file():
        return dict(json.loads((folder / INDEX).read_text())["weight_map"])
    if (folder / ONLY).is_file():
        with safe_open(folder / ONLY, framework="pt") as file:
            return dict.fromkeys(file.keys(), ONLY)
    raise InvalidModelError(f"model folder {folder} is invalid: no weights. Allowed: {ONLY}, or {INDEX} and its files")


@functools.cache
def _opened(file: Path) -> Any:
    return safe_open(file, framework="pt")


def _first(name: str, shape: torch.Size, seed: int) -> torch.Tensor:
    """Return an adapter's first values, the same at every worker: B is zero, so that training starts at the model."""
    first = torch.zeros(shape)
    if ".lora_A." in name:
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
        nn.init.kaiming_uniform_(first, a=math.sqrt(5), generator=generator)
    return first
