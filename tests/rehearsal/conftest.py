"""What the rehearsal's tests add to the embedded account's fixtures."""

from pathlib import Path

import pytest

from embedded_account.server import AccountServer
from rehearsal import paths
from rehearsal.extensions import image_builder


@pytest.fixture(scope="session")
def programs_cache() -> Path:
    """The folder of the rehearsal's own programs."""
    return paths.BINARIES


@pytest.fixture(scope="session")
def builds_are_played(account_server: AccountServer) -> None:
    """Play the image build's pods of every cluster."""
    image_builder.install(account_server.account)
