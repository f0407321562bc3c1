"""Measure a training: a line, Prometheus gauges and a record per interval of seconds."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from ray_resume.checkpoint_store import CheckpointStore, Writer, as_json
from ray_resume.extending import ends
from ray_resume.telemetry import goodput

if TYPE_CHECKING:
    from ray.util import metrics

INTERVAL_SECONDS: Final = 30.0
"""Seconds between two lines."""

PARTS: Final = ("compute", "data", "checkpoint", "waiting")

# Dense bf16 operations per second, by the beginning of the name that CUDA gives to the device; longer names first.
# A100: NVIDIA A100 data sheet, 312 TFLOPS. H100 and H200: NVIDIA's data sheets say 1,979 (SXM), 1,671 (NVL) and 1,513
# (PCIe) TFLOPS "with sparsity", twice the dense figure. B200: NVIDIA Blackwell data sheet, 2.25 PFLOPS dense.
# The same figures are in torchtitan, torchtitan/tools/utils.py (commit 0258167).
_PEAK_FLOPS: Final = {
    "NVIDIA A100": 312e12,
    "NVIDIA H100 NVL": 835e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H200": 989e12,
    "NVIDIA B200": 2.25e15,
}

# Ray puts `ray_` before each name. Units end the name, as Prometheus asks.
_GAUGES: Final = {
    "training_step": "Steps that are done.",
    "training_loss": "Loss of worker 0 in its last step.",
    "training_steps_per_second": "Steps per second in the last interval.",
    "training_tokens_per_second": "Tokens of all workers per second in the last interval.",
    "training_mfu_ratio": "Model operations per second, as a share of the device's peak, in the last interval.",
    "training_goodput_ratio": "Useful time of the run, as a share of its paid time so far.",
}
_PART_GAUGE: Final = "training_interval_seconds"


class Meter:
    """Measures the steps of a worker. The worker of rank 0 prints, exports and records them once per interval.

    A script calls `step` after each step and puts what loads data into `with meter.data():`. Time that is spent in no
    part is computing.
    """

    def __init__(
        self,
        run: str,
        store: CheckpointStore,
        writer: Writer,
        *,
        rank: int,
        world: int,
        say: Callable[[str], None],
        exports: bool = True,
    ) -> None:
        """Measure from now on; `say` prints a line under the run's name. With `exports`, Ray exports the gauges."""
        self.interval = INTERVAL_SECONDS
        self._store = store
        self._writer = writer
        self._rank = rank
        self._world = world
        self._say = say
        self._groups: list[goodput.GoodputGroup] = []
        self._ends: list[float] = []
        self._gauges = _Gauges(run) if exports else None
        self.ready(0)

    def ready(self, step: int) -> None:
        """Start measuring after this step: the workers have loaded their checkpoint."""
        self._ready, self._began = time.time(), time.monotonic()
        self._spent = dict.fromkeys(PARTS[1:], 0.0)
        self._step, self._loss, self._tokens, self._flops = step, None, 0.0, 0.0
        self._last = self._now()

    def data(self) -> contextlib.AbstractContextManager[None]:
        """Count a block as waiting for data."""
        return self._within("data")

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """Count a block as waiting for other workers."""
        return self._within("waiting")

    def step(self, step: int, *, loss: Any = None, tokens: int = 0, flops_per_token: float = 0.0) -> None:
        """Count a step that is done.

        Args:
            step: how many steps are done.
            loss: the step's loss at this worker, a number or a tensor with one element.
            tokens: how many tokens this worker trained on in the step.
            flops_per_token: operations of the model for a token, forward and backward (about six per parameter).
        """
        self._step, self._tokens, self._flops = step, self._tokens + tokens, self._flops + tokens * flops_per_token
        # The value itself would make the host wait for a GPU in each step, and the graph would stay in memory.
        self._loss = loss.detach() if hasattr(loss, "detach") else loss
        if self._rank == 0 and time.monotonic() - self._last["time"] >= self.interval:
            self._report()

    def saved(self, step: int, seconds: float) -> None:
        """Count seconds that went into a checkpoint of this step; `Checkpoints.save` calls it."""
        self._step = step
        self._spent["checkpoint"] += seconds
        if self._rank == 0:
            self._record()

    @contextlib.contextmanager
    def _within(self, part: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._spent[part] += time.monotonic() - started

    def _now(self) -> dict[str, float]:
        """Return what has been measured since the start: the time, the seconds of each part, and counts."""
        now = time.monotonic()
        computing = max(0.0, now - self._began - sum(self._spent.values()))
        counts = {"step": self._step, "tokens": self._tokens, "flops": self._flops}
        return {"time": now, "compute": computing, **self._spent, **counts}

    def _report(self) -> None:
        now = self._now()
        past = {key: value - self._last[key] for key, value in now.items()}
        self._last = now
        seconds = past["time"]
        peak = peak_flops() if past["flops"] else None
        found = {
            "training_step": float(self._step),
            "training_loss": None if self._loss is None else float(self._loss),
            "training_steps_per_second": past["step"] / seconds,
            "training_tokens_per_second": past["tokens"] * self._world / seconds if past["tokens"] else None,
            "training_mfu_ratio": past["flops"] / seconds / peak if peak else None,
            "training_goodput_ratio": self._record(),
        }
        parts = {part: past[part] for part in PARTS}
        self._say(line(found, parts))
        if self._gauges:
            self._gauges.set(found, parts)

    def _record(self) -> float | None:
        """Record the time up to now; return the run's goodput so far, None if the storage fails now."""
        now = self._now()
        saving, training = now["checkpoint"], now["compute"] + now["data"] + now["waiting"]
        record: dict[str, Any] = {"ready": self._ready, "step": self._step, "saving": saving, "training": training}
        try:
            self._store.storage.put(f"telemetry/{self._writer}.json", as_json(record))
            if not self._groups:
                self._groups, self._ends = goodput.groups(self._store), ends(self._store.storage)
        except OSError as error:
            # What measures a training must not end it.
            self._say(f"warning: telemetry is not recorded: {error}")
            return None
        known = [replace(one, **record) if one.writer == self._writer else one for one in self._groups]
        return goodput.account([one for one in known if one.writer <= self._writer], self._ends).share


class _Gauges:
    """Ray's gauges, made when the first value comes: only one worker has values."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._made: dict[str, metrics.Gauge] = {}

    def set(self, found: Mapping[str, float | None], parts: Mapping[str, float]) -> None:
        for name, value in found.items():
            if value is not None:
                self._gauge(name, _GAUGES[name]).set(value, {"run": self._run})
        for part, seconds in parts.items():
            gauge = self._gauge(_PART_GAUGE, "Seconds of the last interval, by part.", "part")
            gauge.set(seconds, {"run": self._run, "part": part})

    def _gauge(self, name: str, text: str, *keys: str) -> metrics.Gauge:
        if name not in self._made:
            self._made[name] = Gauge(name, text, ("run", *keys))
        return self._made[name]


def Gauge(name: str, text: str, keys: tuple[str, ...]) -> metrics.Gauge:
    """Return a gauge of Ray, which trainings without Ray do not import."""
    return importlib.import_module("ray.util.metrics").Gauge(name, text, keys)


def line(found: Mapping[str, float | None], parts: Mapping[str, float]) -> str:
    """Return the line of an interval. The job supervisor reads it (controllers/job_decision.py)."""
    forms = {
        "training_loss": ("loss {:.6g}", 1),
        "training_steps_per_second": ("{:.3g} steps/s", 1),
        "training_tokens_per_second": ("{:.0f} tokens/s", 1),
        "training_mfu_ratio": ("MFU {:.1f} %", 100),
        "training_goodput_ratio": ("goodput {:.1f} %", 100),
    }
    figures = [
        form.format(value * factor) for name, (form, factor) in forms.items() if (value := found[name]) is not None
    ]
    seconds = [f"{seconds:.1f} {part}" for part, seconds in parts.items()]
    return f"step {found['training_step']:.0f}: {', '.join(figures)}; seconds: {', '.join(seconds)}"


def peak_flops() -> float | None:
    """Return the peak of this worker's device in dense bf16 operations per second; None if the table lacks it."""
    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name()
    return next((peak for known, peak in _PEAK_FLOPS.items() if name.startswith(known)), None)
