"""An embedded account inside the test process, emptied between tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from embedded_account.context import Account
from embedded_account.machine.processes import free_port
from embedded_account.server import AccountServer, make_account
from tests.rehearsal.account.stacks import FakeFunctions, Stacks

ACCOUNT_ID = "111122223333"
REGION = "us-west-2"

Clients = Callable[[str], Any]


@pytest.fixture(scope="session")
def account_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountServer]:
    """The account, all extensions installed, served on a free port of this process."""
    directory: Path = tmp_path_factory.mktemp("account")
    server = AccountServer(
        make_account(
            account_id=ACCOUNT_ID,
            region=REGION,
            port=free_port(),
            directory=directory,
            binaries=directory / "bin",
            clock_scale=100.0,
        )
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture
def account(account_server: AccountServer) -> Iterator[Account]:
    """The served account; what a test made in moto's backends is forgotten afterwards."""
    from moto.core.base_backend import BackendDict
    from moto.s3.models import s3_backends

    yield account_server.account
    account_server.account.stacks.clear()
    account_server.account.existing.clear()
    # moto's own reset makes every backend anew only to drop it: nearly a second per test.
    for backends in BackendDict._instances:
        backends.clear()
    BackendDict._instances.clear()
    s3_backends.bucket_accounts.clear()


@pytest.fixture(scope="session")
def aws_session(account_server: AccountServer) -> Any:  # boto3's stubs know client() by literal service names only
    """One boto3 session: each new one reads the services' models again, half a second for EC2."""
    keys = account_server.account.keys
    return boto3.Session(
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key,
        region_name=REGION,
    )


@pytest.fixture
def clients(account: Account, aws_session: Any) -> Clients:
    """Return boto3 clients of the account: `clients("s3")`."""
    return lambda service: aws_session.client(service, endpoint_url=account.endpoint)


@pytest.fixture
def stacks(clients: Clients) -> Stacks:
    """Deploys stacks to the account."""
    return Stacks(clients("cloudformation"))


@pytest.fixture
def functions(account: Account, monkeypatch: pytest.MonkeyPatch) -> FakeFunctions:
    """Functions that the test writes itself, in place of deployed ones."""
    fake = FakeFunctions()
    monkeypatch.setattr(account, "functions", fake)
    return fake
