"""Fixtures of the controllers' tests: a fake API server for each test, with certificates that are made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_account.kubernetes import pki
from tests.support.fake_kubernetes import FakeKubernetes, serve


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.create(tmp_path_factory.mktemp("pki"), service_ip="10.100.0.1")


@pytest.fixture
def kubernetes(certificates: pki.Pki, tmp_path: Path) -> Iterator[FakeKubernetes]:
    with serve(certificates, tmp_path / "account") as fake:
        yield fake
