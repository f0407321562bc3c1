"""Evaluate the result of the all-reduce: did every worker take part, with its GPUs and over EFA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ops.smoke.expected import Expected
from ops.smoke.gpu_health import GpuHealth

_OFI: Final = "OFI"
"""What NCCL's log names (NET/OFI) if it uses EFA; else NCCL falls back to TCP (awsome-distributed-training #386)."""


@dataclass(frozen=True)
class WorkerResult:
    """A worker's part in the all-reduce; `seconds` is None if it took no part."""

    node: str
    pod: str
    device: str
    gpus: int
    gpus_expected: int
    seconds: float | None
    gigabytes_per_second: float
    network: Sequence[str]
    nominal: float | None = None
    """What the node's network carries at most in GB/s; None if unknown, or if no other node took part."""


@dataclass(frozen=True)
class SmokeResult:
    """The workers of a RayCluster, and what is wrong."""

    cluster: str
    rows: tuple[WorkerResult, ...]
    problems: tuple[str, ...]
    gpus: GpuHealth | None = None
    """The health of the GPUs of the workers' nodes; None without GPUs."""

    def with_gpus(self, found: GpuHealth) -> "SmokeResult":
        """Return the verdict with the health of the GPUs, whose faults are problems."""
        return replace(self, gpus=found, problems=(*self.problems, *found.problems))


def evaluate(cluster: str, wanted: Expected, result: Mapping[str, Any]) -> SmokeResult:
    """Return the verdict on what `ray_jobs/smoke.py` printed."""
    by_address = {each["address"]: each for each in result["workers"]}
    rows, problems = [], list(result["problems"])
    between_nodes = len({worker.node for worker in wanted.workers if worker.address in by_address}) > 1
    for worker in wanted.workers:
        found = by_address.get(worker.address)
        if found is None:
            problems.append(f"worker {worker.pod} on {worker.node} took no part")
            rows.append(WorkerResult(worker.node, worker.pod, "", 0, worker.gpus, None, 0.0, ()))
            continue
        if found["gpus"] != worker.gpus:
            problems.append(f"worker {worker.pod} on {worker.node} has {found['gpus']} of {worker.gpus} GPUs")
        if worker.efa and worker.gpus and _OFI not in found["network"]:
            named = ", ".join(found["network"]) or "no network"
            problems.append(f"NCCL does not use EFA on {worker.node}: its log has no NET/OFI, but {named}")
        rows.append(
            WorkerResult(
                worker.node,
                worker.pod,
                found["device"],
                found["gpus"],
                worker.gpus,
                found["seconds"],
                found["gigabytes_per_second"],
                found["network"],
                worker.network_gbps / 8 if worker.network_gbps and between_nodes else None,
            )
        )
    if len(wanted.workers) < wanted.wanted:
        problems.append(f"only {len(wanted.workers)} of {wanted.wanted} workers are running")
    return SmokeResult(cluster, tuple(rows), tuple(problems))
