"""An account in which `ops preflight` looks, and a way to run single checks of it."""

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

import config
from config import EksEnvironment, Environment
from embedded_account.testing.clients import Clients
from ops.policy.role import PersonRole
from ops.preflight.check import CheckResult, CheckStatus
from ops.preflight.checks import CHECKS
from ops.preflight.here import Here
from ops.preflight.run import run
from tests.rehearsal.conftest import AsPerson

Rows = dict[str, CheckResult]
Preflight = Callable[..., Rows]


@pytest.fixture
def environment() -> EksEnvironment:
    return config.load("small")


@pytest.fixture
def preflight(as_person: AsPerson, environment: Environment) -> Preflight:
    """Return a function that runs checks of a title as the deployer; it returns their rows by what they are about."""

    def run_one(title: str, of: Environment | None = None, *, client: Clients | None = None) -> Rows:
        chosen = [check for check in CHECKS if check.title == title]
        assert chosen
        here = Here(of or environment, client or as_person(of or environment, PersonRole.DEPLOYER))
        results = run(here, chosen, Console(file=StringIO()))
        return {result.check.removeprefix(title).removeprefix(": "): result for result in results}

    return run_one


def said(row: CheckResult) -> tuple[CheckStatus, str, str]:
    return row.verdict, row.found, row.fix
