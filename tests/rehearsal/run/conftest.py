"""What the stories need before they are told."""

import pytest

from rehearsal import paths
from rehearsal.kubernetes import binaries
from rehearsal.kubernetes.binaries import Binaries


@pytest.fixture(scope="session")
def programs() -> Binaries:
    """The control plane's programs, built where they are not yet: a clone in a test takes them from here."""
    return binaries.ensure(paths.BINARIES, print)
