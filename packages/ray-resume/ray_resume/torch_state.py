"""The state with which a PyTorch training resumes exactly: model, optimizer, random number generators, and extras.

torch.distributed.checkpoint writes model and optimizer: every worker writes and reads its own part, and a different
number of workers can read the parts. It works alike for a plain module, DDP and FSDP, on CPU and GPU.

A training with several models saves each in a folder of its own below the checkpoint's directory.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from ray_resume import generators
from ray_resume.collective import agree, gathered, world_size
from ray_resume.generators import seed_all

__all__ = ["Stateful", "async_save", "load", "load_weights", "save", "seed_all"]

_EXTRA = "extra.pt"
_CANNOT_LOAD = (torch.optim.LBFGS, torch.optim.SparseAdam)
"""PyTorch (2.6) loads an optimizer after a first step without a closure, and with dense gradients."""
_Saved = Collection[tuple[Any, ...]]
"""Paths of the values in a checkpoint, such as ("optimizer", "state", "layer.weight", "exp_avg")."""


class Stateful(Protocol):
    """Another object whose state a training needs: a scheduler, a gradient scaler, a moving average of the weights."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


def save(
    directory: Path,
    model: nn.Module,
    optimizer: Optimizer,
    *,
    rank: int,
    extra: Mapping[str, Stateful] | None = None,
    extra_per_worker: Mapping[str, Stateful] | None = None,
    frozen: bool = True,
) -> None:
    """Write this worker's part; all workers call it together.

    Args:
        frozen: whether the model's frozen parameters are saved, too. A training with adapters reads them from where it
            first did.
        extra: other objects to save, by name. A module's state may be in parts, like the model's. Of any other object,
            rank 0's state is saved, so that it must be the same at all workers.
        extra_per_worker: objects whose state differs between workers, by name. Every worker's state is saved; only as
            many workers can load it.

    Raises:
        OSError: a worker could not write; the message is the first such worker's.
        TypeError: `load` could not read the optimizer, or an object that is no module of `extra` has a state in parts.
        ValueError: the state of an object in `extra` is not the same at all workers.
    """
    parts, files = _gathered(model, optimizer, rank, extra or {}, extra_per_worker or {}, frozen=frozen)
    _write(parts, files, dcp.FileSystemWriter(directory), None)


def async_save(
    directory: Path,
    model: nn.Module,
    optimizer: Optimizer,
    *,
    rank: int,
    extra: Mapping[str, Stateful] | None = None,
    extra_per_worker: Mapping[str, Stateful] | None = None,
    frozen: bool = True,
) -> Callable[[dist.ProcessGroup | None], None]:
    """Copy this worker's part to memory; return what writes the copy, for `Checkpoints.save` to run in the background.

    It takes as much memory of the worker's node as the worker's part of model and optimizer. All workers call it
    together, and the returned function too, with a process group that has a CPU backend and no other use at the time.
    It takes the same arguments as `save`, and both raise the same errors.
    """
    parts, files = _gathered(model, optimizer, rank, extra or {}, extra_per_worker or {}, frozen=frozen)
    # Without copies ahead, as in dcp.async_save: they would wait for the training's CUDA stream.
    return partial(_write, _copied(parts), files, dcp.FileSystemWriter(directory, per_thread_copy_ahead=0))


def load(
    directory: Path,
    model: nn.Module,
    optimizer: Optimizer,
    *,
    rank: int,
    reseed: int,
    extra: Mapping[str, Stateful] | None = None,
    extra_per_worker: Mapping[str, Stateful] | None = None,
    frozen: bool = True,
) -> None:
    """Read what `save` wrote, into the model, the optimizer and `extra`; all workers call it together.

    The generators continue from their saved state. A worker without one (there are more workers now) starts with seed
    `reseed`. An object in `extra` or `extra_per_worker` that the checkpoint does not have keeps its state, with a
    warning.

    Raises:
        OSError: a worker could not read; the message is the first such worker's.
        ValueError: another number of workers has saved `extra_per_worker`.
    """
    own = _own_states(directory, rank, extra_per_worker or {})
    modules, others = _split(extra or {})
    if isinstance(model, DistributedDataParallel):
        # Into the wrapper, PyTorch (2.6) loads all parameters or fails: frozen ones may be missing.
        model = model.module
    with _causes():
        metadata = dcp.FileSystemReader(directory).read_metadata()
    saved = frozenset((metadata.planner_data or {}).values())
    in_parts = {path[1] for path in saved if path[0] == "extra"}
    parts = {name: get_model_state_dict(module) for name, module in modules.items() if name in in_parts}
    options = _options(frozen=frozen)
    with _trainable(optimizer):
        model_state, optimizer_state = get_state_dict(model, optimizer, options=options)
        state: dict[str, Any] = {"model": model_state, "optimizer": _known(optimizer_state, saved), "extra": parts}
        with _causes():
            dcp.load(state, checkpoint_id=directory)
        groups = [
            {**group, **read}
            for group, read in zip(optimizer_state["param_groups"], state["optimizer"]["param_groups"], strict=True)
        ]
        whole = {"state": optimizer_state["state"], "param_groups": groups}
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=whole, options=options)
        _forget(optimizer, groups, saved)
    for name, part in parts.items():
        set_model_state_dict(modules[name], part)
    states = _read(directory / _EXTRA)
    for name in states.keys() & others.keys():
        others[name].load_state_dict(states[name])
    for name, one in (extra_per_worker or {}).items():
        if name in own:
            one.load_state_dict(own[name])
    if rank == 0:
        _warn_of_extra({*modules, *others}, in_parts | states.keys())
        _warn_of_extra(extra_per_worker or {}, own)
    drawn = _read(directory / generators.file_of(rank))
    if drawn:
        generators.restore(drawn)
    else:
        seed_all(reseed)


def load_weights(directory: Path, model: nn.Module) -> None:
    """Read only the model's weights: to use the model, or to start another training. All workers call it together."""
    weights = get_model_state_dict(model)
    with _causes():
        dcp.load({"model": weights}, checkpoint_id=directory)
    set_model_state_dict(model, weights)


def _gathered(
    model: nn.Module,
    optimizer: Optimizer,
    rank: int,
    extra: Mapping[str, Stateful],
    per_worker: Mapping[str, Stateful],
    *,
    frozen: bool,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what a worker writes: values for torch.distributed.checkpoint, and files by name."""
    _require_loadable(model, optimizer)
    modules, others = _split(extra)
    states = {name: one.state_dict() for name, one in others.items()}
    own = {name: one.state_dict() for name, one in per_worker.items()}
    for name, state in (*states.items(), *own.items()):
        if _in_parts(state):
            raise TypeError(
                f"extra {name!r} is invalid: its state is in parts. Allowed: modules with such a state, in `extra`"
            )
    _require_common(states)
    if rank == 0:
        _warn_of_schedulers(optimizer, extra)
    model_state, optimizer_state = _state(model, optimizer, _options(frozen=frozen))
    parts = {name: get_model_state_dict(module) for name, module in modules.items()}
    files = {generators.file_of(rank): _as_bytes(generators.state())}
    if rank == 0 and states:
        files[_EXTRA] = _as_bytes(states)
    if own:
        files[_own_file(rank)] = _as_bytes(own)
    return {"model": model_state, "optimizer": optimizer_state, "extra": parts}, files


def _write(
    parts: dict[str, Any], files: Mapping[str, bytes], writer: dcp.FileSystemWriter, group: dist.ProcessGroup | None
) -> None:
    with _causes():
        dcp.save(parts, storage_writer=writer, process_group=group)
    failure = None
    try:
        for name, content in files.items():
            (Path(writer.path) / name).write_bytes(content)
    except OSError as error:
        failure = error.strerror or str(error)
    # A script that saves a second model begins collective operations next: all workers do, or none.
    agree(failure, OSError, group)


def _copied(value: Any) -> Any:
    """Return a copy in this process's memory, which later steps do not change.

    PyTorch's own staging (2.6) copies only what is on a GPU: what is in memory would be written as later steps left it.
    """
    if isinstance(value, torch.Tensor):
        return value.to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        copies = [_copied(one) for one in value]
        return copies if isinstance(value, list) else tuple(copies)
    return copy.deepcopy(value)


def _as_bytes(state: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def _own_file(rank: int) -> str:
    return f"extra-{rank:05}.pt"


def _own_states(directory: Path, rank: int, wanted: Mapping[str, Stateful]) -> dict[str, Any]:
    """Return the states that this worker alone has saved, by name."""
    saved, now = len(list(directory.glob("extra-*.pt"))), world_size()
    if wanted and saved and saved != now:
        raise ValueError(
            f"extra_per_worker of {saved} workers does not fit {now} workers: {', '.join(wanted)}. "
            f"Fix: use {saved} workers, or leave extra_per_worker out of `load`"
        )
    return _read(directory / _own_file(rank))


def _require_loadable(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse an optimizer whose state could be saved, and never loaded.

    Raises:
        TypeError: it is one.
    """
    if isinstance(optimizer, _CANNOT_LOAD):
        raise TypeError(
            f"optimizer {type(optimizer).__name__} is invalid: PyTorch cannot load its state from a checkpoint. "
            "Allowed: the other optimizers of torch.optim, such as Adam"
        )
    for module in model.modules():
        # After a forward pass without a backward one, the outermost module still has its gathered parameters.
        if isinstance(module, FSDPModule):
            module.reshard()
    trained = [one for group in optimizer.param_groups for one in group["params"]]
    models = set(model.parameters())
    others = sum(one not in models for one in trained)
    if others:
        raise TypeError(
            f"an optimizer of {len(trained)} parameters is invalid: {others} of them are not the model's. "
            "Allowed: one model with all of them. "
            "Fix: give torch.nn.ModuleList([one, other]) as the model, or each model an optimizer of its own"
        )


def _options(*, frozen: bool) -> StateDictOptions:
    return StateDictOptions(ignore_frozen_params=not frozen, strict=frozen)


def _state(model: nn.Module, optimizer: Optimizer, options: StateDictOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states to save, and leave the optimizer as it is: PyTorch gives one without state a first step."""
    new = not optimizer.state
    model_state, optimizer_state = get_state_dict(model, optimizer, options=options)
    if new:
        optimizer.state.clear()
        optimizer_state["state"] = {}
    return model_state, optimizer_state


# A parameter without a gradient so far has no state in the optimizer, and none in the checkpoint. PyTorch reads only
# whole states (pytorch#192202). It could be given a first state before saving, but then Adam would count one step too
# many once the gradient comes: the parameter is left out here, and its state is removed again after the load.


@contextlib.contextmanager
def _trainable(optimizer: Optimizer) -> Iterator[None]:
    """Let PyTorch read the state of all parameters, also of those that are frozen now and were trained before."""
    frozen = [one for group in optimizer.param_groups for one in group["params"] if not one.requires_grad]
    for one in frozen:
        one.requires_grad_(True)
    yield
    for one in frozen:
        one.requires_grad_(False)


def _known(optimizer_state: dict[str, Any], saved: _Saved) -> dict[str, Any]:
    """Return the part of an optimizer's state that the checkpoint has."""
    trained = _trained(saved)
    groups = optimizer_state["param_groups"]
    return {
        "state": {name: state for name, state in optimizer_state["state"].items() if name in trained},
        "param_groups": [
            {key: value for key, value in group.items() if ("optimizer", "param_groups", number, key) in saved}
            for number, group in enumerate(groups)
        ],
    }


def _forget(optimizer: Optimizer, groups: list[dict[str, Any]], saved: _Saved) -> None:
    """Remove the first state that PyTorch gave to parameters without a state in the checkpoint."""
    trained = _trained(saved)
    for group, named in zip(optimizer.param_groups, groups, strict=True):
        # With FSDP's flat parameters the numbers differ; each of those has all its gradients, or none.
        if len(group["params"]) == len(named["params"]):
            for parameter, name in zip(group["params"], named["params"], strict=True):
                if name not in trained:
                    optimizer.state.pop(parameter, None)


def _trained(saved: _Saved) -> set[str]:
    return {path[2] for path in saved if path[:2] == ("optimizer", "state")}


def _split(extra: Mapping[str, Stateful]) -> tuple[dict[str, nn.Module], dict[str, Stateful]]:
    modules = {name: one for name, one in extra.items() if isinstance(one, nn.Module)}
    return modules, {name: one for name, one in extra.items() if name not in modules}


def _in_parts(state: object) -> bool:
    if isinstance(state, Mapping):
        return any(map(_in_parts, state.values()))
    return any(map(_in_parts, state)) if isinstance(state, (list, tuple)) else isinstance(state, DTensor)


def _warn_of_schedulers(optimizer: Optimizer, extra: Mapping[str, Stateful]) -> None:
    # PyTorch's schedulers leave both marks in their optimizer, except ReduceLROnPlateau.
    scheduled = hasattr(optimizer.step, "_wrapped_by_lr_sched") or any(
        "initial_lr" in group for group in optimizer.param_groups
    )
    if scheduled and not any(hasattr(one, "get_last_lr") for one in extra.values()):
        warnings.warn(
            "the optimizer has a scheduler that is not saved: a resumed run would start its schedule again. "
            'Fix: extra={"scheduler": scheduler} in `save` and `load`',
            stacklevel=4,
        )


def _warn_of_extra(wanted: Collection[str], saved: Collection[str]) -> None:
    for names, what in (
        (sorted(set(wanted) - set(saved)), "is not in the checkpoint: it keeps its initial values"),
        (sorted(set(saved) - set(wanted)), "is in the checkpoint, and nothing loads it"),
    ):
        if names:
            warnings.warn(f"the state of {', '.join(names)} {what}", stacklevel=3)


def _read(file: Path) -> dict[str, Any]:
    """Return what `torch.save` wrote; empty if there is no such file."""
    return torch.load(file, map_location="cpu", weights_only=False) if file.exists() else {}


@contextlib.contextmanager
def _causes() -> Iterator[None]:
    """Turn the errors of the workers' parts into an OSError with the first such worker's message."""
    try:
        yield
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        message = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else cause
        raise OSError(f"worker {rank}: {message}") from error


def _require_common(states: Mapping[str, Any]) -> None:
    """Compare the states, by name, with those of the other workers; all workers call it together.

    Raises:
        ValueError: a state is not the same at all workers. All workers raise the same error.
    """
    if not states:
        return
    first, *others = gathered({name: _digest(state) for name, state in states.items()})
    for rank, other in enumerate(others, start=1):
        differing = next(
            (name for name in sorted(first.keys() | other.keys()) if first.get(name) != other.get(name)), None
        )
        if differing is not None:
            raise ValueError(
                f"extra {differing!r} is invalid: the state of worker {rank} differs from that of worker 0, which "
                "alone is saved. Allowed: the same state at all workers. "
                f"Fix: move it to extra_per_worker={{{differing!r}: …}} in `save` and `load`"
            )


def _digest(state: Any) -> str:
    digest = hashlib.sha256()
    _add(digest.update, state, set())
    return digest.hexdigest()


def _add(add: Callable[[bytes], object], value: Any, above: set[int]) -> None:
    """Add a value, without what differs between equal values: devices, addresses, and the order of keys and sets."""
    if id(value) in above:
        return
    above = {*above, id(value)}
    add(f"{type(value).__qualname__}(".encode())
    if isinstance(value, torch.Tensor):
        dense = value.detach().to("cpu").to_dense() if value.is_sparse else value.detach().to("cpu")
        add(f"{dense.dtype} {tuple(dense.shape)} ".encode())
        add(dense.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, np.ndarray):
        add(f"{value.dtype} {value.shape} ".encode())
        _add(add, value.tolist() if value.dtype.hasobject else value.tobytes(), above)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            _add(add, key, above)
            _add(add, value[key], above)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _add(add, one, above)
    elif isinstance(value, (set, frozenset)):
        add(repr(sorted(map(repr, value))).encode())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, torch.dtype)):
        add(repr(value).encode())
    else:
        _add(add, _pickled(value), above)
    add(b")")


def _pickled(value: Any) -> list[Any]:
    """Return what pickle keeps of an object: its name, or its parts."""
    try:
        parts = value.__reduce_ex__(2)
    except TypeError:
        parts = None
    if isinstance(parts, tuple):
        return [list(part) if isinstance(part, Iterator) else part for part in parts]
    return [parts or getattr(value, "__qualname__", None)]
