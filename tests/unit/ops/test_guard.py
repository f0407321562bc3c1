"""Every error of every command ends in one message and an exit code, never in a traceback."""

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import botocore.exceptions
import pytest
import typer
import urllib3
from kubernetes.client import ApiException
from typer.core import TyperGroup

import config
from config.findings import Finding, InvalidEnvironmentError
from ops import guard
from ops.__main__ import main
from ops.commands import WORDS
from ops.commands.whole import app
from ops.errors import NoAnswerError, UnreachableError
from tests.support.waiting import PATIENCE_SECONDS

Ended = Callable[[BaseException], tuple[int, str]]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ended:
    """Return the exit code and standard error of a command that raises the error."""

    def end(error: BaseException) -> tuple[int, str]:
        broken = typer.Typer()

        @broken.command()
        def fails() -> None:
            raise error

        monkeypatch.setattr(sys, "argv", ["ops"])
        return guard.run(broken), capsys.readouterr().err

    return end


def refusal(code: str, status: int) -> botocore.exceptions.ClientError:
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return botocore.exceptions.ClientError(answer, "ListClusters")  # type: ignore[arg-type]  # its types want all keys


NEW = urllib3.exceptions.MaxRetryError(None, "/", ConnectionRefusedError("refused"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (refusal("AccessDenied", 403), 2, "AWS refuses ListClusters (AccessDenied): no. Fix: use credentials "),
        (botocore.exceptions.NoCredentialsError(), 2, "there are no AWS credentials. Fix: log in"),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="https://x"), 2, "AWS does not answer: "),
        (ApiException(status=403, reason="Forbidden"), 2, "the Kubernetes API refuses this request (403)"),
        (NEW, 2, "the Kubernetes API does not answer (refused). Fix: "),
        (UnreachableError("it is away. Fix: wait"), 2, "it is away. Fix: wait\n"),
        (NoAnswerError("no answer. Fix: run the command again"), 2, "no answer. Fix: run the command again\n"),
        (FileNotFoundError(2, "No such file or directory", "a.json"), 2, "a.json: No such file or directory. Fix: "),
        (IsADirectoryError(21, "Is a directory", Path("b")), 2, "b: Is a directory. Fix: "),
        (PermissionError(13, "Permission denied", "c"), 2, "c: Permission denied. Fix: check the path, "),
        (ConnectionResetError(104, "reset by peer"), 2, "a connection failed ([Errno 104] reset by peer). Fix: "),
        (TimeoutError("timed out"), 2, "a connection failed (timed out). Fix: check the network"),
        (socket.gaierror(-2, "Name or service not known"), 2, "a connection failed ([Errno -2] Name or service"),
        (ssl.SSLError(1, "certificate verify failed"), 2, "a connection failed ("),
        (
            ValueError("two\nlines"),
            3,
            "ops failed with builtins.ValueError: two lines. Fix: set OPS_DEBUG=1 to see the traceback, and report it",
        ),
        (OSError("without a file"), 3, "ops failed with builtins.OSError: without a file. Fix: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_one_line_with_a_fix(ended: Ended, error: Exception, code: int, message: str) -> None:
    found, said = ended(error)
    assert found == code
    [line] = said.splitlines(keepends=True)
    assert line.startswith(f"error: {message}")
    assert "Fix: " in line


def test_the_findings_of_an_invalid_file_are_reported(ended: Ended) -> None:
    finding = Finding("region", "'x'", "no such region", "us-west-2", "correct it")
    code, said = ended(InvalidEnvironmentError([finding]))
    assert (code, said) == (2, f"error: {finding}\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_ctrl_c_ends_with_130(ended: Ended, error: BaseException) -> None:
    assert ended(error) == (130, "")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77])
def test_a_commands_own_exit_code_stays(ended: Ended, code: int) -> None:
    assert ended(typer.Exit(code)) == (code, "")


def test_the_traceback_is_shown_on_request(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPS_DEBUG", "1")
    code, said = ended(ValueError("odd"))
    assert code == 3
    assert "Traceback (most recent call last)" in said
    assert "in fails" in said
    assert said.splitlines()[-1].startswith("error: ops failed with builtins.ValueError: odd.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "--enviroment", "dev"), "No such option: --enviroment. Fix: `ops check --help` shows"),
        (("wiat",), "No such command 'wiat'. Did you mean 'wait'. Fix: `ops --help` shows what is allowed"),
        (("wait", "--env", "dev", "--timeout", "3"), "Invalid value for '--timeout': '3' is no duration. Allowed: "),
        (("wait", "--env", "dev", "--interval", "0s"), "Invalid value for '--interval': 0s is too short. Allowed: "),
        (("wait",), f"Missing option '--env' (env var: 'OPS_ENV'). Allowed: {config.allowed_names()}. Fix: give --env"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["ops", *arguments])
    assert main() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")


def test_the_process_ends_after_its_threads_and_exit_functions() -> None:
    code = """import atexit, sys, threading, time
from ops import __main__ as ops
def work():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    print("thread")
def main():
    threading.Thread(target=work).start()
    atexit.register(print, "exit function")
    return 3
ops.main = main
ops.program()"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (ended.returncode, ended.stderr) == (3, "")
    assert ended.stdout.splitlines() == ["thread", "exit function"]


def test_without_arguments_the_help_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ops"])
    assert guard.run(app) == 2
    shown = capsys.readouterr()
    assert "Usage: ops [OPTIONS] COMMAND" in shown.out
    assert shown.err == ""


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("chec", "No such command 'chec'. Did you mean 'check', 'schema'"),
        ("--no-color chec", "No such command 'chec'. Did you mean 'check', 'schema'"),
        ("charts fetc", "No such command 'fetc'. Did you mean 'fetch'"),
        ("check --wrong", "No such option: --wrong"),
    ],
)
def test_a_wrong_word_is_answered_with_similar_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, answer: str
) -> None:
    """Only the called command is built, but a word that is not a command's name needs all."""
    monkeypatch.setattr(sys, "argv", ["ops", *words.split()])
    assert main() == 2
    assert answer in capsys.readouterr().err


def test_table_of_the_commands_names_each_with_its_module() -> None:
    defined: dict[str, set[str]] = {module: set() for module in WORDS}
    for name, command in typer.main.get_group(app).commands.items():
        first = next(iter(command.commands.values())) if isinstance(command, TyperGroup) else command
        assert first.callback
        defined[first.callback.__module__.removeprefix("ops.commands.")].add(name)
    assert {module: {*words} for module, words in WORDS.items()} == defined


@pytest.mark.parametrize("words", ["check", "charts", "charts fetch", "node reboot"])
def test_help_of_one_command_is_that_of_the_whole_application(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    argv = [*words.split(), "--help"]
    monkeypatch.setattr(sys, "argv", ["ops", *argv])
    assert guard.run(guard.application(argv)) == 0
    alone = capsys.readouterr().out
    app(argv, prog_name="ops", standalone_mode=False)
    assert alone == capsys.readouterr().out != ""


@pytest.mark.parametrize("command", [("check",), ("explain", "-o", "json")])
def test_a_reader_that_leaves_is_no_error(command: tuple[str, ...]) -> None:
    """The pipe is closed before `ops` writes: the first flush fails."""
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "ops", *command]
    ended = subprocess.run(
        argv, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")
