"""FSDP2 on CPUs: what `fully_shard` misses there is added here.

With PyTorch 2.6 it fails with "'Stream' object has no attribute 'record_event'", and with any version with "Cannot use
ReduceOp.AVG with Gloo". Nothing else of it depends on the device: sharding, loading, saving and accumulating are shown
as they are.
"""

import inspect

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard import _fsdp_collectives


def allow() -> None:
    """Let `fully_shard` work on CPUs in this process."""
    if not hasattr(torch.cpu.Stream, "record_event"):
        torch.cpu.Stream.record_event = lambda _stream, _event=None: torch.cpu.Event()
        torch.cpu.Stream.wait_event = lambda _stream, _event: None
    # Newer ones are asked for the operations, too.
    newer = "device_type" in inspect.signature(_fsdp_collectives._get_gradient_divide_factors).parameters
    operations = (dist.ReduceOp.SUM, dist.ReduceOp.SUM) if newer else ()
    _fsdp_collectives._get_gradient_divide_factors = lambda group, *_: (float(group.size()), None, *operations)
