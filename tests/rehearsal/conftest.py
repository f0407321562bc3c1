"""Where the rehearsal's tests find the control plane's programs."""

from pathlib import Path

import pytest

from rehearsal import paths


@pytest.fixture(scope="session")
def programs_cache() -> Path:
    """The folder of the rehearsal's own."""
    return paths.BINARIES
