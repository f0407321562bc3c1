"""What Ray knows of an attempt: the resources that its workers wait for, and the step that they have reached.

Both come from the memory of Ray's head, where the attempt's program runs too: neither needs the run's storage, which
may be what hangs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ray
from ray._private.state import available_resources_per_node
from ray.experimental import internal_kv

_NAMESPACE: Final = b"ray_resume"
_EVERY_SECONDS: Final = 5.0
# A placement group is PENDING until all its bundles have a node, and RESCHEDULING after the loss of a node.
_WAITS: Final = ("PENDING", "RESCHEDULING")


def missing_resources() -> str:
    """Return the resources that this program's workers wait for, such as `2 x {CPU: 1, GPU: 1}`; empty if none.

    Ray Train starts its workers in a placement group. Its id ends with the id of the job that made it.
    """
    if not ray.is_initialized():
        return ""
    groups, _ = waiting_groups()
    return describe(groups, [node["Resources"] for node in ray.nodes() if node["Alive"]]) if groups else ""


def waiting_groups() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the placement groups that wait for resources: this program's, and those of other jobs."""
    job = ray.get_runtime_context().get_job_id()
    waiting = {id: group for id, group in ray.util.placement_group_table().items() if group["state"] in _WAITS}
    return (
        [group for id, group in waiting.items() if id.endswith(job)],
        [group for id, group in waiting.items() if not id.endswith(job)],
    )


def free_resources() -> list[dict[str, float]]:
    """Return what nobody uses of each node that is alive."""
    return list(available_resources_per_node().values())


def describe(groups: list[dict[str, Any]], nodes: Sequence[Mapping[str, float]]) -> str:
    """Return the bundles of placement groups that have no node, and how many of the nodes are large enough for one."""
    missing = [
        bundle
        for group in groups
        for index, bundle in group["bundles"].items()
        if not group["bundles_to_node_id"].get(index)
    ]
    fitting = sum(
        any(all(node.get(name, 0) >= amount for name, amount in bundle.items()) for bundle in missing) for node in nodes
    )
    wanted = Counter(", ".join(f"{name}: {amount:g}" for name, amount in sorted(each.items())) for each in missing)
    bundles = " and ".join(f"{number} x {{{bundle}}}" for bundle, number in wanted.items())
    return f"{bundles} (nodes large enough for one: {fitting})"


class StepReports:
    """Reports the step of a group of workers to the program that watches over the attempt.

    A thread sends the newest step every few seconds, so that a training step costs an assignment and never waits.
    """

    def __init__(self, run: str, writer: str) -> None:
        self._key = _key(run, writer)
        self._step = -1
        self._thread: threading.Thread | None = None

    def reached(self, step: int) -> None:
        """Take note of a step."""
        self._step = step
        if self._thread is None:
            self._thread = threading.Thread(target=self._send, name="step reports", daemon=True)
            self._thread.start()

    def _send(self) -> None:
        sent = -1
        while True:
            step = self._step
            # Whatever the error, a later report may arrive; the training does not depend on it.
            with contextlib.suppress(Exception):
                if step != sent:
                    internal_kv._internal_kv_put(self._key, str(step).encode(), namespace=_NAMESPACE)
                    sent = step
            time.sleep(_EVERY_SECONDS)


def reported_steps(run: str, attempt: int) -> dict[str, int]:
    """Return the newest reported step of each group of workers of an attempt."""
    if not ray.is_initialized():
        return {}
    keys = internal_kv._internal_kv_list(_key(run, f"{attempt:04}."), namespace=_NAMESPACE)
    values = ((key, internal_kv._internal_kv_get(key, namespace=_NAMESPACE)) for key in keys)
    return {key.decode(): int(value) for key, value in values if value is not None}


def _key(run: str, writer: str) -> bytes:
    return f"{run}/{writer}".encode()
