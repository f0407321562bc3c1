"""What the unit tests of the operator's command line share."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import botocore.session
import pytest

import config
from ops.clients import Clients, connect
from tests.unit.support.fake_apis import Apis, serve
from tests.unit.support.running_environment import make_ready

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(scope="session")
def service_models() -> Iterator[None]:
    """Read AWS's service models once: each session of boto3 would parse them anew, half of a command's time."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("botocore.session.create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture
def no_aws(service_models: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Take the caller's AWS configuration away."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", *CREDENTIALS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.fixture(scope="session")
def served() -> Iterator[Apis]:
    """AWS and Kubernetes on localhost; `apis` is what tests use."""
    with serve() as apis:
        yield apis


@pytest.fixture
def apis(no_aws: pytest.MonkeyPatch, served: Apis) -> Apis:
    """AWS and Kubernetes of a `dev` that is ready, and an environment in which `ops` talks to them."""
    for name, value in (CREDENTIALS | {"AWS_ENDPOINT_URL": served.endpoint}).items():
        no_aws.setenv(name, value)
    make_ready(served)
    return served


@pytest.fixture(scope="session")
def clients(served: Apis) -> Iterator[Clients]:
    """Clients of `apis`: to make them anew for each test would take most of its time."""
    make_ready(served)
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as monkeypatch:
            for name, value in (CREDENTIALS | {"AWS_ENDPOINT_URL": served.endpoint}).items():
                monkeypatch.setenv(name, value)
            connected = stack.enter_context(connect(config.load("dev")))
        yield connected
