"""Measure how many bytes of tensors a process holds at the same time."""

import weakref
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[misc]  # torch is in the jobs' environment only
    """In this block, `peak` is the largest number of bytes that all tensors made in it had at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._storages: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            # A DTensor's own storage is a mere form: its bytes are those of its local tensor.
            held = one._local_tensor if isinstance(one, DTensor) else one
            if isinstance(held, torch.Tensor) and held.device.type != "meta":
                self._storages.add(held.untyped_storage())
        self.peak = max(self.peak, sum(storage.nbytes() for storage in self._storages))
        return made
