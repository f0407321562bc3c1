"""What all unit tests share."""

from collections.abc import Iterator
from functools import cache

import pytest
import typer


@pytest.fixture(scope="session", autouse=True)
def built_once() -> Iterator[None]:
    """Build the commands of an application once: typer builds all of `ops` again for each call."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        build = cache(typer.main.get_command)
        monkeypatch.setattr("typer.main.get_command", build)
        monkeypatch.setattr("typer.testing._get_command", build)
        yield
