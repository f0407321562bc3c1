"""FSDP2 on CPUs with PyTorch 2.6: the two things are added here that its `fully_shard` misses there.

Without them it fails with "'Stream' object has no attribute 'record_event'", then with "Cannot use ReduceOp.AVG with
Gloo". Nothing else of it depends on the device: sharding, loading, saving and accumulating are shown as they are.
"""

from typing import Any

import torch
from torch.distributed.fsdp._fully_shard import _fsdp_collectives


def allow() -> None:
    """Let `fully_shard` work on CPUs in this process."""
    torch.cpu.Stream.record_event = lambda _stream, _event=None: torch.cpu.Event()
    torch.cpu.Stream.wait_event = lambda _stream, _event: None
    _fsdp_collectives._get_gradient_divide_factors = _divide_before_the_sum


def _divide_before_the_sum(group: Any, *_: Any) -> tuple[float, None]:
    return float(group.size()), None
