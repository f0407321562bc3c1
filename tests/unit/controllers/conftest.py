"""Fixtures of the controllers' tests: a fake API server, a fake Ray and a run between them, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_account.kubernetes import pki
from tests.support import fake_kubernetes, fake_ray
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.fake_ray import FakeRay
from tests.support.supervised_run import Supervised


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.create(tmp_path_factory.mktemp("pki"), service_ip="10.100.0.1")


@pytest.fixture
def kubernetes(certificates: pki.Pki, tmp_path: Path) -> Iterator[FakeKubernetes]:
    with fake_kubernetes.serve(certificates, tmp_path / "account") as fake:
        yield fake


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with fake_ray.serve() as fake:
        yield fake


@pytest.fixture
def run(kubernetes: FakeKubernetes, ray: FakeRay, tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(kubernetes, ray.host, tmp_path)
    yield made
    made.end()
