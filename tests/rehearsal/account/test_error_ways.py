"""Errors of every command that needs an account: one message, an exit code, no traceback, whatever the command."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner, Result

import config
from config.load import file_of
from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from ops.commands.whole import app
from ops.policy.role import PersonRole
from tests.support import assumed_role, people

pytestmark = pytest.mark.product

Typed = Callable[[str], Result]

ARGUMENTS: Final = {
    "cost": ["--live"],
    "scale": ["worker-group-1", "0"],
    "sleep": ["worker-group-1"],
    "wake": ["worker-group-1"],
    "data get": ["/fsx/run-1", "run-1"],
    "data put": [__file__, "/fsx/run-1"],
    "logs": ["head"],
    "support-bundle": ["--dry-run"],
    "policy": ["admin"],
    "job submit": ["--", "python", "-c", "pass"],
    "job logs": ["run-1"],
    "job stop": ["run-1"],
    "job checkpoint": ["run-1"],
    "job profile": ["run-1"],
    "job exec": ["run-1", "--", "true"],
    "node shell": ["i-0123456789abcdef0"],
    "node drain": ["i-0123456789abcdef0"],
    "node reboot": ["i-0123456789abcdef0"],
    "node replace": ["i-0123456789abcdef0"],
    "node check": ["i-0123456789abcdef0"],
}
"""The arguments of commands that require some, or ask the account only with them."""


def commands(command: Any, words: str = "") -> Iterator[str]:
    """Yield the words of each command that requires `--env`."""
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{words} {name}".strip())
    if any(parameter.name == "env" and parameter.required for parameter in command.params):
        yield words


COMMANDS: Final = sorted(commands(typer.main.get_command(app)))


WITHOUT_ACCOUNT: Final = {"images", "kuberay crds", "mirror", "plan", "policy"}
"""What they ask of the account comes after what they read on this machine, if they ask at all."""
FINE_WITHOUT_STACKS: Final = {"cost": 0, "destroy": 0, "events": 0, "preflight": 1, "sweep": 0}
"""Commands that have an answer where nothing is deployed, with their exit codes."""
UNLINKED: Final = {"data get": 1, "data ls": 1, "data put": 1}
"""Commands that this environment has no use for: its file system has no data repository."""
NEVER_FAILING: Final = {"support-bundle"}
"""What a bundle cannot read, it names in itself."""
OF_SLURM: Final = {"ssh-config"}
"""Commands for environments with Slurm only."""
ASKING: Final = [words for words in COMMANDS if words not in WITHOUT_ACCOUNT | NEVER_FAILING]


@pytest.fixture
def ops(account: Account, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Return a function that types a command in a shell with credentials of the account."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account.keys.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", account.keys.secret_access_key)
    return lambda words: CliRunner().invoke(app, [*words.split(), "--env", env_of(words), *ARGUMENTS.get(words, [])])


def env_of(words: str) -> str:
    """Return the environment that a command is typed for."""
    return "slurm" if words in OF_SLURM else "small"


def message(result: Result) -> str:
    """Return the one error message."""
    assert isinstance(result.exception, SystemExit), result.exception
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, result.output
    assert "Fix: " in errors[0]
    return errors[0]


@pytest.mark.parametrize(
    ("words", "role"), [(words, role) for words in ASKING for role in people.roles_of(tuple(words.split()))]
)
def test_where_nothing_is_deployed_a_command_says_what_to_deploy_or_that_there_is_nothing(
    ops: Typed, words: str, role: PersonRole, *, account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Type it with credentials of each role that it is for: `ops policy` must allow each call of each command."""
    arn = people.make_role(clients, config.load_any(env_of(words)), role)
    for name, value in assumed_role.credentials(clients, arn).items():
        monkeypatch.setenv(name, value)
    since = len(account.journal.entries())
    result = ops(words)
    assert people.refusals(account, since) == []
    assert result.exit_code == (FINE_WITHOUT_STACKS | UNLINKED).get(words, 2), result.output
    if words in UNLINKED:
        assert "Fix: add fsx.data_repositories" in message(result)
    elif words not in FINE_WITHOUT_STACKS:
        expected = {
            "drift": "no stack of small can be compared: none is deployed",
            "ssh-config": "there is no HyperPod cluster",
        }
        assert expected.get(words, "there is no EKS cluster yet") in message(result)


@pytest.mark.parametrize("words", ASKING)
def test_an_account_that_does_not_answer_is_named(ops: Typed, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("time.sleep", lambda _: None)
    result = ops(words)
    assert (result.exit_code, "AWS does not answer" in message(result)) == (2, True), result.output


@pytest.mark.parametrize("words", ASKING)
def test_credentials_of_another_account_change_nothing(
    ops: Typed, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(env_of(words))
    (tmp_path / file.name).write_text(file.read_text().replace("111122223333", "444455556666"))
    examine = config.examine
    monkeypatch.setattr(config, "examine", lambda name: examine(name, tmp_path))
    result = ops(words)
    assert (result.exit_code, "belong to account 111122223333" in message(result)) == (2, True), result.output


def test_a_bundle_names_what_it_could_not_read(ops: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("time.sleep", lambda _: None)
    result = ops("support-bundle")
    assert result.exit_code == 0, result.output
    assert "AWS does not answer" in result.stdout


@pytest.mark.parametrize("words", COMMANDS)
def test_an_environment_that_does_not_exist_is_named_with_those_that_do(words: str) -> None:
    arguments = ARGUMENTS.get(words, [])
    result = CliRunner().invoke(app, [*words.split(), "--env", "nowhere", *arguments])
    assert result.exit_code == 2, result.output
    assert re.search(r"error: .*nowhere\.yaml.* Allowed: .*small", message(result))
