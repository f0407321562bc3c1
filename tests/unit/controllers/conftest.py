"""Fixtures of the controllers' tests: a fake API server, a fake Ray and a run between them, for each test."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from controllers import reaper as module
from controllers.reaper import Reaper
from controllers.telemetry import Metrics
from embedded_account.kubernetes import pki
from k8s_charts.ray.pods import UNWELL_SECONDS
from tests.support import fake_kubernetes, fake_ray
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.fake_ray import FakeRay
from tests.support.supervised_run import Supervised
from tests.support.waiting import wait_until
from tests.unit.support.nodes_and_pods import NOW, TOLERATED

Start = Callable[..., Reaper]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.create(tmp_path_factory.mktemp("pki"), service_ip="10.100.0.1")


@pytest.fixture
def kubernetes(certificates: pki.Pki, tmp_path: Path) -> Iterator[FakeKubernetes]:
    with fake_kubernetes.serve(certificates, tmp_path / "account") as fake:
        yield fake


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Set the reaper's clocks: the monotonic one continues, later by what a test sets in `later`."""
    clock = SimpleNamespace(time=lambda: NOW, later=0.0)
    clock.monotonic = lambda: time.monotonic() + clock.later
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def start(kubernetes: FakeKubernetes, metrics: Metrics) -> Iterator[Start]:
    """Start a reaper; return it once it has listed pods and nodes."""
    made: list[Reaper] = []

    def started(*, dry_run: bool = False, metrics: Metrics = metrics) -> Reaper:
        reaper = Reaper(
            kubernetes.cluster,
            metrics,
            namespace="ray",
            unready_seconds=TOLERATED,
            unwell_seconds=UNWELL_SECONDS,
            dry_run=dry_run,
        )
        reaper.start()
        made.append(reaper)
        wait_until(lambda: "no answer" not in reaper.deafness(), "its first look")
        return reaper

    yield started
    for reaper in made:
        reaper.stop()


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with fake_ray.serve() as fake:
        yield fake


@pytest.fixture
def run(kubernetes: FakeKubernetes, ray: FakeRay, tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(kubernetes, ray.host, tmp_path)
    yield made
    made.end()
