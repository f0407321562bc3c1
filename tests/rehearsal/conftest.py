"""What this project adds to the embedded account that the tests serve."""

import pytest

from embedded_account.server import AccountServer
from rehearsal.extensions import image_builder


@pytest.fixture(scope="session")
def builds_are_played(account_server: AccountServer) -> None:
    """Play the image build's pods of every cluster."""
    image_builder.install(account_server.account)
