"""Whether GPUs of nodes are busy, as NVIDIA's exporter on each node says (NVIDIA/dcgm-exporter 4.5.3-4.8.2)."""

import http.client
import math
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from typing import Final

EXPORTERS_NAMESPACE: Final = "gpu-metrics"
"""Of the exporters' pods, which belong to a DaemonSet."""
PORT: Final = 9400
METRIC: Final = "DCGM_FI_DEV_GPU_UTIL"
"""Percent of the time in which a kernel ran, of each GPU."""

EVERY_SECONDS: Final = 60.0
"""How long an answer counts: the exporter itself reads the GPUs every 30 seconds."""

# A round takes at most the deadline and one timeout, so that the sleeper's Lease outlasts it.
_AT_ONCE: Final = 32
_TIMEOUT_SECONDS: Final = 2.0
_DEADLINE_SECONDS: Final = 5.0
# Eight GPUs need about 40 KB.
_MOST_BYTES: Final = 4_000_000
_SAMPLE: Final = re.compile(rf"^{METRIC}(?:\{{.*\}})? +(\S+)", re.MULTILINE)


class ExporterError(Exception):
    """An exporter does not say whether its GPUs are busy."""


@dataclass(frozen=True)
class GpuAnswer:
    """What the exporter of a node said at a time of the monotonic clock; `problem` is empty if it can be read."""

    at: float
    busy: bool
    problem: str = ""


class GpuExporters:
    """The exporters of nodes, each asked at most once in `EVERY_SECONDS`; `failed` is called once for each round."""

    def __init__(self, failed: Callable[[ExporterError], None]) -> None:
        self._failed = failed
        self._known: dict[str, GpuAnswer] = {}

    def ask(self, addresses: Mapping[str, str], *, fresh: bool = False) -> dict[str, GpuAnswer]:
        """Return the answers by node, given the exporters' addresses; with `fresh`, no earlier ones."""
        now = time.monotonic()
        known = {node: each for node, each in self._known.items() if now - each.at < EVERY_SECONDS}
        asked = [node for node in addresses if fresh or node not in known]
        if asked:
            ask = partial(_ask, deadline=now + _DEADLINE_SECONDS)
            with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
                known |= zip(asked, pool.map(ask, (addresses[node] for node in asked)), strict=True)
            if problems := [f"{node}: {known[node].problem}" for node in asked if known[node].problem]:
                self._failed(ExporterError(f"{len(problems)} of {len(asked)} exporters, the first on {problems[0]}"))
        self._known = known
        return {node: known[node] for node in addresses}


def _ask(address: str, *, deadline: float) -> GpuAnswer:
    """Return the answer of an exporter; one that is due after the deadline is not asked any more."""
    now = time.monotonic()
    if now >= deadline:
        return GpuAnswer(now, busy=False, problem="there was no time to ask it")
    connection = http.client.HTTPConnection(address, PORT, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        if response.status != 200:
            raise ExporterError(f"it answers {response.status}")
        return GpuAnswer(now, are_busy(response.read(_MOST_BYTES).decode(errors="replace")))
    except (OSError, HTTPException, ExporterError) as error:
        return GpuAnswer(now, busy=False, problem=str(error) or repr(error))
    finally:
        connection.close()


def are_busy(metrics: str) -> bool:
    """Return whether a GPU of these metrics is busy. Raises ExporterError if they do not say it."""
    try:
        values = [float(value) for value in _SAMPLE.findall(metrics)]
    except ValueError as error:
        raise ExporterError(f"{METRIC} cannot be read: {error}") from error
    if not values or any(map(math.isnan, values)):
        raise ExporterError(f"it has no value of {METRIC}")
    return any(value > 0 for value in values)
