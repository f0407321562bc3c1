"""An account in which `ops preflight` looks, and a way to run single checks of it."""

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

import config
from config import Environment
from embedded_account.testing.clients import Clients
from ops.preflight.check import Result, Verdict
from ops.preflight.checks import CHECKS
from ops.preflight.here import Here
from ops.preflight.run import run

Rows = dict[str, Result]
Preflight = Callable[..., Rows]


@pytest.fixture
def environment() -> Environment:
    return config.load("small")


@pytest.fixture
def preflight(clients: Clients, environment: Environment) -> Preflight:
    """Return a function that runs the checks of this title and returns their rows, by what they are about."""

    def run_one(title: str, of: Environment | None = None, *, client: Clients | None = None) -> Rows:
        chosen = [check for check in CHECKS if check.title == title]
        assert chosen
        results = run(Here(of or environment, client or clients), chosen, Console(file=StringIO()))
        return {result.check.removeprefix(title).removeprefix(": "): result for result in results}

    return run_one


def said(row: Result) -> tuple[Verdict, str, str]:
    return row.verdict, row.found, row.fix
