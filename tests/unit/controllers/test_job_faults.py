"""Which lines of a job's output name a failure of the infrastructure."""

import pytest

from controllers.job_faults import FAULTS, Evidence, evidence_in

# Lines as Python, PyTorch 2.6, NCCL 2.21, gloo and Ray 2.42.1 print them.
LINES = {
    "ray.exceptions.ActorDiedError: The actor died unexpectedly": Evidence.MACHINE,
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": Evidence.MACHINE,
    "NVRM: Xid (PCI:0000:10:1c): 79, GPU has fallen off the bus.": Evidence.MACHINE,
    "RuntimeError: No CUDA GPUs are available": Evidence.MACHINE,
    "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.": Evidence.MACHINE,
    "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable": Evidence.MACHINE,
    "RuntimeError: CUDA error: no CUDA-capable device is detected": Evidence.MACHINE,
    "RuntimeError: CUDA error: system not yet initialized": Evidence.MACHINE,
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed": Evidence.MACHINE,
    "OSError: [Errno 5] Input/output error: '/fsx/ray/data/0001.parquet'": Evidence.MACHINE,
    "worker 3: Input/output error": Evidence.MACHINE,
    "OSError: [Errno 107] Transport endpoint is not connected": Evidence.MACHINE,
    "OSError: [Errno 108] Cannot send after transport endpoint shutdown": Evidence.MACHINE,
    "OSError: [Errno 116] Stale file handle": Evidence.MACHINE,
    "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients": Evidence.MACHINE,
    "infrastructure failure: the licence server is down": Evidence.MACHINE,
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting": Evidence.PEER,
    "NCCL communicator was aborted on rank 3.": Evidence.PEER,
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)": Evidence.PEER,
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317": Evidence.PEER,
    "torch.distributed.DistNetworkError: The client socket has failed to connect": Evidence.PEER,
    "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4711": Evidence.PEER,
}
CODE = (
    "ValueError: a bug",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "RuntimeError: CUDA error: device-side assert triggered",
    "FileNotFoundError: [Errno 2] No such file or directory: '/fsx/x'",
    "OSError: [Errno 55] No buffer space available",
    "my_RpcErrors = 3",
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess.",
)


@pytest.mark.parametrize(("line", "evidence"), LINES.items())
def test_line_of_a_failed_machine_or_peer_is_known(line: str, evidence: Evidence) -> None:
    found = evidence_in(["before", f"\x1b[36m(RayTrainWorker pid=7)\x1b[0m {line}", "after"])
    assert found is not None
    assert found[0] is evidence
    assert found[1] in line


@pytest.mark.parametrize("line", CODE)
def test_line_of_failed_code_is_none(line: str) -> None:
    assert evidence_in([line]) is None


def test_evidence_of_a_machine_goes_before_that_of_a_peer() -> None:
    peer, machine = "Connection reset by peer", "ray.exceptions.NodeDiedError: lost"
    assert evidence_in([machine, peer]) == evidence_in([peer, machine]) == (Evidence.MACHINE, "NodeDiedError")


def test_every_fault_has_a_source() -> None:
    assert all(fault.source for fault in FAULTS)
