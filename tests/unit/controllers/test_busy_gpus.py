"""The question whether GPUs are busy: once a minute, in parallel, within a deadline; what is unknown is no idle GPU."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from controllers import busy_gpus
from controllers.busy_gpus import ExporterError, GpuExporters, are_busy
from tests.support import fake_exporters
from tests.support.fake_exporters import FakeExporter

NOBODY = "127.255.255.253"
"""An address at which nothing listens."""


def refuse(error: ExporterError) -> None:
    """Fail a test in which every exporter answers."""
    pytest.fail(str(error))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(later=0.0)
    made.monotonic = lambda: time.monotonic() + made.later
    monkeypatch.setattr(busy_gpus, "time", made)
    return made


@pytest.fixture
def exporter() -> Iterator[FakeExporter]:
    with fake_exporters.serve() as fake:
        yield fake


def test_one_busy_gpu_of_eight_is_seen(exporter: FakeExporter) -> None:
    found = {}
    for value in (0, 1, 100):
        exporter.utilisation = value
        [answer] = GpuExporters(refuse).ask({"gpu-0": exporter.host}).values()
        found[value] = (answer.busy, answer.problem)
    assert found == {0: (False, ""), 1: (True, ""), 100: (True, "")}


def test_an_exporter_is_asked_once_a_minute_unless_the_answer_must_be_fresh(
    exporter: FakeExporter, clock: SimpleNamespace
) -> None:
    asks = GpuExporters(refuse)
    for _ in range(8):
        asks.ask({"gpu-0": exporter.host})
        clock.later += 15
    assert exporter.asked == 2
    exporter.utilisation = 50
    assert asks.ask({"gpu-0": exporter.host}, fresh=True)["gpu-0"].busy
    assert asks.ask({"gpu-0": exporter.host})["gpu-0"].busy, "a fresh answer replaces the earlier one"
    assert exporter.asked == 3


@pytest.mark.parametrize(
    "metrics",
    [
        "",
        "DCGM_FI_DEV_GPU_TEMP 30\n",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} NaN\n',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} many\n',
        'DCGM_FI_DEV_GPU_UTIL_MEAN{gpu="0"} 0\n',
    ],
)
def test_an_answer_without_utilisation_is_no_idle_gpu(metrics: str) -> None:
    with pytest.raises(ExporterError):
        are_busy(metrics)


def test_labels_may_have_braces_and_blanks() -> None:
    assert are_busy('DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="a} 0 {b"} 7\n')
    assert not are_busy('DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="a} 7 {b"} 0\n')


def test_who_gives_no_usable_answer_is_a_problem_and_is_reported_once_for_a_round(exporter: FakeExporter) -> None:
    exporter.status = 503
    reported: list[ExporterError] = []
    found = GpuExporters(reported.append).ask({"gpu-0": exporter.host, "gpu-1": NOBODY})
    assert found["gpu-0"].problem == "it answers 503"
    assert "refused" in found["gpu-1"].problem
    assert [str(each) for each in reported] == ["2 of 2 exporters, the first on gpu-0: it answers 503"]


def test_silent_exporters_cost_a_bounded_time(exporter: FakeExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_gpus, "_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(busy_gpus, "_DEADLINE_SECONDS", 0.5)
    exporter.silent = 5
    began = time.monotonic()
    found = GpuExporters(lambda _: None).ask({f"gpu-{n}": exporter.host for n in range(200)})
    assert time.monotonic() - began < 4
    assert all(answer.problem for answer in found.values())
    assert exporter.asked < 200
    assert {answer.problem for answer in found.values()} == {"timed out", "there was no time to ask it"}


def test_a_thousand_nodes_are_asked_within_the_deadline(exporter: FakeExporter) -> None:
    found = GpuExporters(refuse).ask({f"gpu-{n}": exporter.host for n in range(1000)})
    assert len(found) == exporter.asked == 1000
    assert not any(answer.busy for answer in found.values())
