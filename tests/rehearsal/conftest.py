"""What the rehearsal's tests add to the embedded account's fixtures."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from config import Environment
from embedded_account.context import Account
from embedded_account.server import AccountServer
from embedded_account.testing.clients import Clients
from ops.policy.role import PersonRole
from rehearsal import paths
from rehearsal.extensions import image_builder
from tests.support import assumed_role, people

AsPerson = Callable[[Environment, PersonRole], Clients]


@pytest.fixture(scope="session")
def programs_cache() -> Path:
    """The folder of the rehearsal's own programs."""
    return paths.BINARIES


@pytest.fixture(scope="session")
def builds_are_played(account_server: AccountServer) -> None:
    """Play the image build's pods of every cluster."""
    image_builder.install(account_server.account)


@pytest.fixture
def as_person(account: Account, clients: Clients, aws_session: Any) -> Iterator[AsPerson]:
    """Return a function that returns clients of a role of an environment, with the policies of `ops policy`.

    The test fails if a person was refused something.
    """
    since = len(account.journal.entries())

    def of(environment: Environment, role: PersonRole) -> Clients:
        keys = assumed_role.credentials(clients, people.make_role(clients, environment, role))
        return people.client_of(aws_session, account.endpoint, keys)

    yield of
    assert people.refusals(account, since) == []
