"""Provide pytest fixtures: an embedded account in the test process, and a control plane with nodes.

Load them in the top conftest.py: `pytest_plugins = ("embedded_account.testing.plugin",)`. A fixture starts, and imports
its modules, only when a test requests it.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from embedded_account.testing.clients import ACCOUNT_ID, NODE_MODULES, REGION, Clients

if TYPE_CHECKING:
    from embedded_account.context import Account
    from embedded_account.kubernetes.building.binaries import Binaries
    from embedded_account.kubernetes.control_plane import ControlPlane
    from embedded_account.kubernetes.nodes import Nodes
    from embedded_account.server import AccountServer
    from embedded_account.testing.cluster import Kubectl
    from embedded_account.testing.stacks import FakeFunctions, StackDeployer

KNOWN_TOKEN: Final = "token-of-ann"
"""The token that authenticates user `ann`, a member of the group `submitters`, at `control_plane`."""


# -- the account


@pytest.fixture(scope="session")
def service_models() -> Iterator[None]:
    """Read AWS's service models once: each session of boto3 would read them again, half a second for EC2."""
    import botocore.session

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("botocore.session.create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(scope="session")
def account_server(service_models: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[AccountServer]":
    """Serve the account on a free port in this process."""
    with served(tmp_path_factory.mktemp("account")) as server:
        yield server


@contextmanager
def served(directory: Path) -> "Iterator[AccountServer]":
    """Serve an account on a free port in this process; a simulated second takes 10 ms."""
    from embedded_account.machine.processes import free_port
    from embedded_account.server import AccountServer, make_account

    server = AccountServer(
        make_account(
            account_id=ACCOUNT_ID,
            region=REGION,
            port=free_port(),
            directory=directory,
            binaries=directory / "bin",
            node_modules=NODE_MODULES,
            clock_scale=100.0,
        )
    )
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def account(account_server: "AccountServer") -> "Iterator[Account]":
    """Return the served account; discard its resources after each test."""
    yield account_server.account
    discard_resources(account_server.account)


def discard_resources(account: "Account") -> None:
    """Discard the account's resources, but not its clusters."""
    from moto.core.base_backend import BackendDict
    from moto.s3.models import s3_backends

    account.stacks.clear()
    account.existing.clear()
    # moto's own reset creates every backend again only to drop it: nearly a second per test.
    for backends in BackendDict._instances:
        backends.clear()
    BackendDict._instances.clear()
    s3_backends.bucket_accounts.clear()


@pytest.fixture(scope="session")
def aws_session(account_server: "AccountServer") -> Any:  # boto3's stubs know client() by literal service names only
    """Return one boto3 session for all tests."""
    import boto3

    keys = account_server.account.keys
    return boto3.Session(
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key,
        region_name=REGION,
    )


@pytest.fixture(scope="session")
def all_clients(account_server: "AccountServer", aws_session: Any) -> Clients:
    """Return one boto3 client per service for all tests: to make one takes tens of milliseconds."""
    return cache(partial(aws_session.client, endpoint_url=account_server.account.endpoint))


@pytest.fixture
def clients(account: "Account", all_clients: Clients) -> Clients:
    """Return boto3 clients of the account: `clients("s3")`."""
    return all_clients


@pytest.fixture
def stacks(clients: Clients) -> "StackDeployer":
    """Return a helper that deploys stacks to the account."""
    from embedded_account.testing.stacks import StackDeployer

    return StackDeployer(clients("cloudformation"))


@pytest.fixture
def functions(account: "Account", monkeypatch: pytest.MonkeyPatch) -> "FakeFunctions":
    """Replace the account's function runtime with fake functions that the test defines."""
    from embedded_account.testing.stacks import FakeFunctions

    fake = FakeFunctions()
    monkeypatch.setattr(account, "functions", fake)
    return fake


# -- the control plane


@pytest.fixture(scope="session")
def programs_cache() -> Path:
    """Return the folder of the built programs; override this fixture to keep them elsewhere."""
    from embedded_account.running import default_cache

    return default_cache()


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest, programs_cache: Path) -> "Binaries":
    """Return the control plane's programs; build them first if needed, and print the progress of the build."""
    from embedded_account.kubernetes.building import binaries as built

    capture = request.config.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    return built.ensure(programs_cache, show)


@pytest.fixture(scope="session")
def authenticator() -> Iterator[str]:
    """Serve a TokenReview webhook that knows one token; return its URL."""

    class Reviews(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = review["spec"]["token"] == KNOWN_TOKEN
            status = {"authenticated": known, "user": {"username": "ann", "groups": ["submitters"]} if known else {}}
            body = json.dumps(review | {"status": status}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing, to keep the tests' output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Reviews) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/authenticate"
        server.shutdown()


@pytest.fixture(scope="session")
def control_plane(
    tmp_path_factory: pytest.TempPathFactory, binaries: "Binaries", authenticator: str
) -> "Iterator[ControlPlane]":
    """Start a real control plane for all tests of the session; KUBERNETES_VERSION chooses another version."""
    from embedded_account.kubernetes.control_plane import ControlPlane

    plane = ControlPlane(
        tmp_path_factory.mktemp("control-plane"),
        binaries,
        name="tests",
        authenticator_url=authenticator,
        issuer="https://oidc.example.invalid/id/TESTS",
        kubernetes=os.environ.get("KUBERNETES_VERSION"),
    )
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture(scope="session")
def nodes(control_plane: "ControlPlane") -> "Nodes":
    """Add six nodes with the label `group`: one `system`, one `head`, and four `gpu` with eight GPUs each."""
    from embedded_account.kubernetes.nodes import Nodes, NodeSpec
    from embedded_account.testing.cluster import ACCELERATED, GENERAL

    registry = Nodes(control_plane.api)
    registry.add_all(
        [
            NodeSpec(name="system-1", labels={"group": "system"}, allocatable=GENERAL, capacity=GENERAL),
            NodeSpec(name="head-1", labels={"group": "head"}, allocatable=GENERAL, capacity=GENERAL),
            *(
                NodeSpec(name=f"gpu-{number}", labels={"group": "gpu"}, allocatable=ACCELERATED, capacity=ACCELERATED)
                for number in range(1, 5)
            ),
        ]
    )
    return registry


@pytest.fixture(scope="session")
def kubectl(control_plane: "ControlPlane") -> "Kubectl":
    """Return the real kubectl as the control plane's administrator."""
    from embedded_account.testing.cluster import Kubectl

    return Kubectl(control_plane)
