"""Options that all commands share: --env and OPS_ENV, --no-color, --yes, and what the shell completes."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

import config
from config.rules import ALL_RULES
from ops import cli
from ops.commands.whole import app
from ops.jobs.package import own_jobs
from tests.support.waiting import PATIENCE_SECONDS

ALL: Final = {"check", "migrate", "manifests", "review", "gate"}
"""Commands on all environments, in which --env only chooses one."""


def commands(command: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from commands(below, f"{words} {name}".strip())
    else:
        yield words, command


COMMANDS: Final = dict(commands(typer.main.get_command(app)))
ON_ONE: Final = [
    words
    for words, command in COMMANDS.items()
    if words not in ALL and any("--env" in parameter.opts for parameter in command.params)
]


def env_option(words: str) -> Any:
    return next((parameter for parameter in COMMANDS[words].params if "--env" in parameter.opts), None)


@pytest.mark.parametrize("words", ON_ONE)
def test_a_command_on_one_environment_has_no_default(words: str) -> None:
    option = env_option(words)
    assert option.required
    assert option.default is None
    assert option.envvar == "OPS_ENV"


@pytest.mark.parametrize("words", [words for words in COMMANDS if words in ALL and env_option(words)])
def test_a_command_on_all_environments_takes_one_from_ops_env(words: str) -> None:
    option = env_option(words)
    assert not option.required
    assert option.envvar == "OPS_ENV"


def test_ops_env_names_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPS_ENV", "small.yaml")
    shown = CliRunner().invoke(app, ["check"]).stdout
    assert "small: account " in shown
    assert shown.count(": account ") == 1
    assert "prod: account " in CliRunner().invoke(app, ["check", "--env", "prod"]).stdout


def test_an_empty_ops_env_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPS_ENV", "")
    assert CliRunner().invoke(app, ["check"]).stdout.count(": account ") == len(config.available())


def test_a_question_without_a_terminal_is_refused_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pipe would even say yes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(typer.Exit) as end:
        cli.confirmed("Continue?")
    assert end.value.exit_code == 1
    assert "standard input is no terminal. Fix: give --yes\n" in capsys.readouterr().err


def test_ctrl_c_at_a_question_is_an_interruption(monkeypatch: pytest.MonkeyPatch, terminal: None) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(KeyboardInterrupt):
        cli.confirmed("Continue?")


@pytest.mark.parametrize(("switch", "variable"), [(("--no-color",), ""), ((), "1")], ids=["option", "variable"])
def test_output_without_colours(switch: tuple[str, ...], variable: str) -> None:
    """A terminal that has colours shows errors in red."""

    def printed(*given: str, **variables: str) -> str:
        env = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": ""} | variables
        argv = [sys.executable, "-m", "ops", *given, "explain", "V0"]
        ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        assert "rule 'V0' is invalid" in ended.stderr
        return ended.stderr

    assert "\x1b[1;31merror" in printed()
    assert "31m" not in printed(*switch, NO_COLOR=variable)


def completed(line: str, **variables: str) -> list[str]:
    """Return what bash is offered for the last word of the line."""
    words = line.split(" ")
    asked = {"_OPS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return CliRunner(env=asked | variables).invoke(app, [], prog_name="ops").stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ops che", ["check"]),
        ("ops wait --env d", ["dev"]),
        ("ops check --env sma", ["small"]),
        ("ops new x --like exi", ["existing-eks", "existing-vpc"]),
        ("ops explain V5", [rule for rule in ALL_RULES if rule.startswith("V5")]),
        ("ops scale --env dev w", ["worker-group-1"]),
        ("ops rollout --env dev r", ["rayml"]),
        ("ops job submit --env dev --cluster r", ["rayml"]),
        ("ops job submit pyt", ["pytorch_ddp"]),
        ("ops update-software --env nowhere --group w", []),
        ("ops wait --require m", ["min"]),
        ("ops wait -o j", ["json"]),
    ],
)
def test_the_shell_completes_names(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("tr", ["train.py", "trainer/"]),
        ("./tr", ["./train.py", "./trainer/"]),
        ("trainer/", ["trainer/main.py"]),
        ("trainer/n", []),
        ("nowhere/", []),
        (".h", [".hidden/"]),
    ],
)
def test_a_job_s_own_files_are_completed(
    typed: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train.py", "trainer/main.py", "trainer/notes.txt", "trial.yaml", ".hidden/job.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert completed(f"ops job submit {typed}") == expected
    assert completed(f"ops job submit {tmp_path}/{typed}") == [f"{tmp_path}/{each}" for each in expected]


def test_all_jobs_are_offered_for_nothing_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("ops job submit ") == own_jobs()


def test_names_are_completed_for_the_environment_of_ops_env() -> None:
    assert completed("ops scale ", OPS_ENV="small") == [
        group.name for group in config.load("small").hyperpod.instance_groups
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_script_calls_ops(shell: str) -> None:
    result = CliRunner(env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}).invoke(app, ["--help"])
    assert "--install-completion" in result.stdout
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="ops", complete_var="_OPS_COMPLETE", shell=shell)
    assert f"_OPS_COMPLETE=complete_{shell}" in script
