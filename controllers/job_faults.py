"""What a job prints when the infrastructure fails: one table of the lines that name such a failure.

A job names a failure that this table does not know by a line with `infrastructure failure:`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Evidence(StrEnum):
    """What a line says about the failure of a job."""

    MACHINE = "machine"
    """A node, a GPU, a network or a file system failed."""
    PEER = "peer"
    """Another worker ended or hangs, whatever the reason: the machine or the code."""


@dataclass(frozen=True)
class Fault:
    """A kind of failure: the words that name it, what they say, and where they come from."""

    pattern: str
    evidence: Evidence
    source: str


_ERRNO: Final = r"\[Errno {}\]|(?<![\w-]){}(?![\w-])"
_RAY: Final = "ray: python/ray/exceptions.py"
_RUNTIME: Final = "CUDA Runtime API, cudaError_t"
_TORCH_CUDA: Final = "pytorch: c10/cuda/CUDAFunctions.cpp"
_NCCL: Final = "pytorch: torch/csrc/distributed/c10d/NCCLUtils.cpp"
_LUSTRE: Final = "Lustre Operations Manual, client eviction; errno(3)"

FAULTS: Final = (
    # Ray's exceptions for a lost node or process.
    *(
        Fault(rf"\b{name}\b", Evidence.MACHINE, _RAY)
        for name in (
            *("ActorDiedError", "ActorUnavailableError", "NodeDiedError", "WorkerCrashedError"),
            *("LocalRayletDiedError", "RaySystemError", "ObjectLostError", "OwnerDiedError"),
            *("ObjectFetchTimedOutError", r"ObjectReconstructionFailed\w*Error", "RpcError"),
            *("ActorUnschedulableError", "TaskUnschedulableError", r"NodePreempted\w*"),
        )
    ),
    # GPUs and their driver.
    Fault("uncorrectable ECC error", Evidence.MACHINE, f"{_RUNTIME} 214"),
    Fault("GPU has fallen off the bus", Evidence.MACHINE, "NVIDIA XID errors, 79"),
    Fault("No CUDA GPUs are available", Evidence.MACHINE, _TORCH_CUDA),
    Fault("driver initialization failed", Evidence.MACHINE, _TORCH_CUDA),
    Fault("CUDA-capable device\\(s\\) is/are busy or unavailable", Evidence.MACHINE, f"{_RUNTIME} 46"),
    Fault("no CUDA-capable device is detected", Evidence.MACHINE, f"{_RUNTIME} 100"),
    Fault("CUDA error: system not yet initialized", Evidence.MACHINE, f"{_RUNTIME} 802"),
    Fault(r"\bnccl(?:SystemError|UnhandledCudaError|InternalError)\b", Evidence.MACHINE, _NCCL),
    # Shared file systems: a client that its server evicted, and a mount that is gone.
    Fault(_ERRNO.format(5, "Input/output error"), Evidence.MACHINE, _LUSTRE),
    Fault(_ERRNO.format(107, "Transport endpoint is not connected"), Evidence.MACHINE, _LUSTRE),
    Fault(_ERRNO.format(108, "Cannot send after transport endpoint shutdown"), Evidence.MACHINE, _LUSTRE),
    Fault(_ERRNO.format(116, "Stale file handle"), Evidence.MACHINE, "errno(3)"),
    # The workers of Ray Train meet before the train function begins.
    Fault(r"\bDistStoreError\b", Evidence.MACHINE, "pytorch: torch/csrc/distributed/c10d/exception.h"),
    Fault("infrastructure failure:", Evidence.MACHINE, "the job itself"),
    # What other ranks report of a rank that ended or hangs.
    Fault(r"\bncclRemoteError\b", Evidence.PEER, _NCCL),
    Fault("NCCL communicator was aborted", Evidence.PEER, _NCCL),
    Fault(
        "Watchdog caught collective operation timeout",
        Evidence.PEER,
        "pytorch: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    ),
    Fault(r"\bDist(?:Backend|Network)Error\b", Evidence.PEER, "pytorch: torch/csrc/distributed/c10d/exception.h"),
    Fault("Connection (?:closed by|reset by) peer", Evidence.PEER, "gloo: gloo/transport/tcp/pair.cc; errno(3)"),
)


def evidence_in(output: Sequence[str]) -> tuple[Evidence, str] | None:
    """Return the evidence in a job's last lines and the words that are it; a machine's before a peer's."""
    for evidence in Evidence:
        for line in reversed(output):
            if found := _PATTERNS[evidence].search(line):
                return evidence, found[0]
    return None


_PATTERNS: Final = {
    evidence: re.compile("|".join(f"(?:{fault.pattern})" for fault in FAULTS if fault.evidence is evidence))
    for evidence in Evidence
}
