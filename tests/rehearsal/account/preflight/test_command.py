"""`ops preflight` as a person types it: in an empty account, in a ready one, in a wrong one, without credentials."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import config
from config import naming
from config.facts import charts_lock
from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from ops.commands.whole import app
from ops.policy.role import PersonRole
from tests.support import assumed_role, people

pytestmark = pytest.mark.product

Typed = Callable[..., Any]


@pytest.fixture
def ops(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Return a function that types a command in a shell with credentials of the environment's deployer."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.endpoint)
    deployer = people.make_role(clients, config.load("small"), PersonRole.DEPLOYER)
    for name, value in assumed_role.credentials(clients, deployer).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(charts_lock, "locked", tuple)
    return lambda *words: CliRunner().invoke(app, words)


def test_an_empty_account_fails_once_for_its_bootstrap_and_the_table_ends_with_the_commands(ops: Typed) -> None:
    done = ops("preflight", "--env", "small")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert [line.split("  ")[:2] for line in lines if "✘ fail" in line] == [["✘ fail", "CDK bootstrap"]]
    mended = lines[lines.index("To mend:") :]
    assert mended[mended.index("  CDK bootstrap:") + 1] == "    cdk bootstrap aws://111122223333/us-west-2"
    assert "error: small is not ready to deploy: " in done.stderr
    assert "1 fail. Fix: mend what fails, then rerun" in done.stderr


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_bootstrapped_account_is_ready_and_a_program_can_read_it(
    clients: Clients, ops: Typed, output: str, parse: Callable[[str], Any]
) -> None:
    clients("ssm").put_parameter(Name=naming.bootstrap_version(config.load("small")), Value="28", Type="String")
    done = ops("preflight", "--env", "small", "-o", output)
    assert done.exit_code == 0, done.output
    found = parse(done.stdout)
    assert (found["environment"], found["account"], found["region"]) == ("small", "111122223333", "us-west-2")
    by = {row["check"]: row for row in found["checks"]}
    assert by["CDK bootstrap"] == {"check": "CDK bootstrap", "verdict": "pass", "found": "version 28", "fix": ""}
    assert {check.partition(":")[0] for check, row in by.items() if row["verdict"] != "pass"} == {"service-linked role"}


def test_credentials_of_another_account_end_the_command(ops: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    load = config.load("small").model_copy
    monkeypatch.setattr(
        "ops.commands.deploy.preflight.load_any", lambda *_, **__: load(update={"account": "444455556666"})
    )
    done = ops("preflight", "--env", "small")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "belong to account 111122223333" in done.stderr


def test_without_an_answer_of_aws_nothing_is_checked(ops: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("time.sleep", lambda _: None)
    done = ops("preflight", "--env", "small")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "AWS does not answer" in done.stderr


def test_an_interrupted_command_says_how_to_resume(ops: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_futures: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("ops.preflight.run.as_completed", interrupted)
    done = ops("preflight", "--env", "small")
    assert (done.exit_code, done.stdout) == (130, "")
    assert "interrupted. Fix: rerun `ops preflight --env small`" in done.stderr
