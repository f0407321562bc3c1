"""Fixtures of the tests of `ops`: fake APIs, clients of them, and no AWS configuration of the caller."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import config
from ops.clients import Clients, connect
from tests.unit.support.fake_apis import Apis, serve
from tests.unit.support.running_environment import make_ready

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the caller's settings of `ops`, and hide the caller's kept rehearsals."""
    monkeypatch.setattr("ops.clients._KEPT_REHEARSALS", tmp_path / "no rehearsals")
    for name in ("OPS_ENV", "OPS_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test's input be that of a person at a terminal."""
    monkeypatch.setattr("ops.cli.is_interactive", lambda: True)


@pytest.fixture
def no_aws(service_models: None, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Remove the caller's AWS configuration."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", *CREDENTIALS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.fixture(scope="session")
def served() -> Iterator[Apis]:
    """Serve AWS and Kubernetes on localhost; tests use the fixture `apis`."""
    with serve() as apis:
        yield apis


@pytest.fixture
def apis(no_aws: pytest.MonkeyPatch, served: Apis) -> Apis:
    """Return AWS and Kubernetes of a ready `dev`, with the variables that lead `ops` to them."""
    for name, value in (CREDENTIALS | {"AWS_ENDPOINT_URL": served.endpoint}).items():
        no_aws.setenv(name, value)
    make_ready(served)
    return served


@pytest.fixture(scope="session")
def clients(served: Apis) -> Iterator[Clients]:
    """Return clients of `apis`, made once: making them for each test would take most of the test's time."""
    make_ready(served)
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as monkeypatch:
            for name, value in (CREDENTIALS | {"AWS_ENDPOINT_URL": served.endpoint}).items():
                monkeypatch.setenv(name, value)
            connected = stack.enter_context(connect(config.load("dev")))
        yield connected
