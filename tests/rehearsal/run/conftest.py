"""What the stories need before they are told."""

import pytest

from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.building.binaries import Binaries
from rehearsal import paths


@pytest.fixture(scope="session")
def programs() -> Binaries:
    """The control plane's programs, built where they are not yet: a clone in a test takes them from here."""
    return binaries.ensure(paths.BINARIES, print)
