"""What a meter prints, exports and records, with a clock that the tests turn."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from controllers.job_decision import FIGURES, PROGRESS, RESUMED
from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.storage import open_storage
from ray_resume.telemetry import meter as metering
from ray_resume.telemetry.meter import Meter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        # The run's folder has the real time.
        self.began = float(round(time.time()))

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.began + self.now - 1000

    def wait(self, seconds: float) -> None:
        self.now += seconds


class Gauges:
    """What Ray was given."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}

    def make(self, name: str, text: str, keys: tuple[str, ...]) -> Any:
        assert text.endswith(".")
        outer = self

        class Made:
            def set(self, value: float, tags: dict[str, str]) -> None:
                assert set(tags) == set(keys)
                outer.values[(name, *sorted(tags.values()))] = value

        return Made()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(metering, "time", made)
    return made


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> Gauges:
    made = Gauges()
    monkeypatch.setattr(metering, "Gauge", made.make)
    return made


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(open_storage(str(tmp_path), "run"))


@pytest.fixture
def said() -> list[str]:
    """Return the lines that were printed."""
    return []


@pytest.fixture
def meter(store: CheckpointStore, clock: Clock, gauges: Gauges, said: list[str]) -> Meter:
    """Return the meter of worker 0 of two, in a run whose workers began just now."""
    writer, _ = store.begin(1)
    return Meter("run", store, writer, rank=0, world=2, say=said.append)


def train(meter: Meter, clock: Clock, steps: range, **words: Any) -> None:
    """Take five seconds for each step: one for data, one for others, three for computing."""
    for step in steps:
        with meter.data():
            clock.wait(1)
        clock.wait(3)
        with meter.waiting():
            clock.wait(1)
        meter.step(step + 1, **words)


def test_line_per_interval_divides_its_seconds(meter: Meter, clock: Clock, said: list[str]) -> None:
    train(meter, clock, range(5), loss=torch.tensor(0.5, requires_grad=True), tokens=100)
    assert said == []
    clock.wait(5)
    meter.saved(5, 5.0)
    train(meter, clock, range(5, 6), loss=float("nan"), tokens=100)
    [line] = said
    assert line.startswith("step 6: loss nan, 0.171 steps/s, 34 tokens/s, goodput ")
    assert line.endswith("; seconds: 18.0 compute, 6.0 data, 5.0 checkpoint, 6.0 waiting")
    train(meter, clock, range(6, 12), loss=0.25)
    assert said[1].startswith("step 12: loss 0.25, 0.2 steps/s, goodput ")
    assert said[1].endswith("; seconds: 18.0 compute, 6.0 data, 0.0 checkpoint, 6.0 waiting")


def test_supervisor_reads_the_line(meter: Meter, clock: Clock, said: list[str]) -> None:
    train(meter, clock, range(6), loss=1.5e-7, tokens=100)
    found = FIGURES.search(f"run run attempt 0001.01: {said[0]}")
    assert found is not None
    figures = found.groupdict()
    assert (figures["step"], figures["loss"], figures["steps_per_second"]) == ("6", "1.5e-07", "0.2")
    assert 0 < float(figures["goodput"]) <= 100
    assert not PROGRESS.search(said[0])
    assert not RESUMED.search(said[0])


def test_record_is_the_runs_goodput(meter: Meter, store: CheckpointStore, clock: Clock, said: list[str]) -> None:
    clock.wait(10)
    meter.ready(20)
    train(meter, clock, range(20, 24))
    clock.wait(5)
    meter.saved(24, 5.0)
    record = json.loads(store.storage.read("telemetry/0001.01.json") or b"")
    assert record == {"ready": clock.began + 10, "step": 24, "saving": 5.0, "training": 20.0}
    assert said == []


def test_gauges_have_the_runs_name_and_only_the_figures_that_there_are(
    meter: Meter, clock: Clock, gauges: Gauges
) -> None:
    train(meter, clock, range(6), tokens=100)
    assert gauges.values.pop(("training_goodput_ratio", "run")) > 0
    assert gauges.values == {
        ("training_step", "run"): 6,
        ("training_steps_per_second", "run"): 0.2,
        ("training_tokens_per_second", "run"): 40,
        ("training_interval_seconds", "compute", "run"): 18,
        ("training_interval_seconds", "data", "run"): 6,
        ("training_interval_seconds", "checkpoint", "run"): 0,
        ("training_interval_seconds", "run", "waiting"): 6,
    }


SHARES = {
    "NVIDIA H200": "MFU 20.2 %",
    "NVIDIA H100 80GB HBM3": "MFU 20.2 %",
    "NVIDIA H100 PCIe": "MFU 26.5 %",
    "NVIDIA H100 NVL": "MFU 24.0 %",
    "NVIDIA A100-SXM4-40GB": "MFU 64.1 %",
    "NVIDIA B200": "MFU 8.9 %",
    "Tesla T4": "",
    "": "",
}
"""The MFU of 10,000 tokens in 5 s, at 100 GFLOP a token: 200 TFLOPS."""


@pytest.mark.parametrize("device", SHARES)
def test_mfu_is_told_only_for_a_known_device(
    meter: Meter, clock: Clock, said: list[str], monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(device))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: device)
    train(meter, clock, range(6), tokens=10_000, flops_per_token=1e11)
    assert SHARES[device] in said[0]
    assert ("MFU" in said[0]) == bool(SHARES[device])


def test_other_workers_print_and_write_nothing(
    store: CheckpointStore, clock: Clock, gauges: Gauges, said: list[str]
) -> None:
    writer, _ = store.begin(1)
    other = Meter("run", store, writer, rank=1, world=2, say=said.append)
    train(other, clock, range(12), loss=0.5)
    other.saved(12, 1.0)
    assert (said, gauges.values, store.storage.names("telemetry")) == ([], {}, [])


def test_storage_that_fails_is_told_and_training_continues(
    meter: Meter, store: CheckpointStore, clock: Clock, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(store.storage, "put", fail)
    train(meter, clock, range(6), loss=0.5)
    assert said[0] == "warning: telemetry is not recorded: No space left on device"
    assert said[1].startswith("step 6: loss 0.5, 0.2 steps/s; seconds: ")
