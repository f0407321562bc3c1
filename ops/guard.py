"""Run the application so that every error ends in one message and an exit code."""

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from importlib import import_module
from typing import Final, NoReturn

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

import config
from config.findings import InvalidEnvironmentError
from ops.cli import app, fail, report
from ops.commands import WORDS

DEBUG_VARIABLE: Final = "OPS_DEBUG"
"""Name of the variable that makes `ops` print the traceback of each error."""
_OWN: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_CLIENTS: Final = {"boto3", "botocore", "kubernetes", "ops", "s3transfer", "urllib3"}
"""The packages whose errors `ops.errors` explains."""
_OWN_PACKAGES: Final = {"config", "handlers", "k8s_charts", "ops", "stacks"}
_NETWORK: Final = {"socket", "ssl"}
"""The modules of network errors without a class of their own in Python; importing `ssl` takes 5 ms."""


def application(words: Sequence[str]) -> typer.Typer:
    """Return the application with the called command only, or whole if the first word is not a command's name.

    Importing and building all commands takes a tenth of `ops check`.
    """
    name = words[0] if words else ""
    module = next((module for module, names in WORDS.items() if name in names), None)
    if module is None:
        from ops.commands import whole  # noqa: PLC0415

        return whole.app
    import_module(f"ops.commands.{module}")
    only = copy(app)
    only.registered_commands = [each for each in app.registered_commands if _name(each) == name]
    only.registered_groups = [each for each in app.registered_groups if each.name == name]
    return only


def run(app: typer.Typer) -> int:
    """Run the command line and return its exit code."""
    try:
        _require_output()
        _refuse_another_checkout()
        code = app(prog_name="ops", standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        _forget_output()
        return 1
    except Exception as error:  # noqa: BLE001 - the outermost place: an error that is not reported here is a traceback
        if os.environ.get(DEBUG_VARIABLE):
            import traceback  # noqa: PLC0415 - only here: people check files after each edit

            traceback.print_exception(error)
        try:
            _report(error)
        except typer.Exit as end:
            return end.exit_code
    return code if isinstance(code, int) else 0


def _require_output() -> None:
    """Exit with 2 if standard output is closed; Python has no stream for a closed one."""
    # What a command opens next must not become its output.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        fail("standard output is closed. Fix: open it, or redirect it to a file")


def _refuse_another_checkout() -> None:
    """Exit with 2 if this code is not that of the checkout that a person works in, or whose `ops` was called.

    A copied .venv still names the original's Python, which runs the original's code on the original's environments.
    """
    with suppress(FileNotFoundError):
        # Paths as text: people check files after each edit.
        for place in (os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0]))):  # noqa: PTH100, PTH109, PTH120
            if (here := _checkout(place)) and not os.path.samefile(here, _OWN):  # noqa: PTH121
                fail(
                    f"{here} is another checkout than {_OWN}, whose files this ops runs. "
                    f"Fix: run `./setup.sh` in {here}, then `source {here}/.venv/bin/activate`"
                )


def _checkout(place: str) -> str:
    """Return the nearest folder at or above `place` that holds a checkout, or ""."""
    while not os.path.exists(f"{place}/ops/guard.py"):  # noqa: PTH110
        above = os.path.dirname(place)  # noqa: PTH120
        if above == place:
            return ""
        place = above
    return place


def _name(command: CommandInfo) -> str:
    return command.name or get_command_name(getattr(command.callback, "__name__", ""))


def _report(error: Exception) -> NoReturn:
    """Print the error as one message. Raises typer.Exit with the exit code."""
    if isinstance(error, typer.TyperException):
        _report_misuse(error)
    if isinstance(error, InvalidEnvironmentError):
        report(error.findings)
        raise typer.Exit(2)
    if _is_of_a_client(error):
        _report_known(error)
    match error:
        case OSError() if isinstance(error, ConnectionError | TimeoutError) or type(error).__module__ in _NETWORK:
            fail(f"a connection failed ({_line(error)}). Fix: check the network, then run the command again")
        case OSError(filename=str() | os.PathLike() as file) if error.strerror:
            fail(f"{file}: {error.strerror}. Fix: check the path, its permissions and the space on the disk")
        case OSError(filename=None, strerror=str(reason), errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO):
            _forget_output()
            fail(
                f"the output cannot be written: {reason}. Fix: free space on the disk, or redirect the output elsewhere"
            )
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] not in _OWN_PACKAGES:
            fail(
                f"this command needs the package {name}, which is not installed (`./setup.sh check` leaves it out). "
                "Fix: run `./setup.sh runtime`"
            )
    kind = type(error)
    fail(
        f"ops failed with {kind.__module__}.{kind.__qualname__}: {_line(error)}. "
        f"Fix: set {DEBUG_VARIABLE}=1 to see the traceback, and report it",
        code=3,
    )


def _report_misuse(error: typer.TyperException) -> NoReturn:
    """Report a wrong command line; a call without arguments has shown the help instead."""
    message = error.format_message().rstrip(".?")
    context = getattr(error, "ctx", None)
    if getattr(getattr(error, "param", None), "name", "") == "env":
        fail(f"{message}. Allowed: {config.allowed_names()}. Fix: give --env NAME, or set OPS_ENV", error.exit_code)
    if "Fix: " in message:
        fail(message, error.exit_code)
    if message:
        words = context.command_path if context else "ops"
        fail(f"{message}. Fix: `{words} --help` shows what is allowed", error.exit_code)
    raise typer.Exit(error.exit_code)


def _is_of_a_client(error: Exception) -> bool:
    return any(kind.__module__.partition(".")[0] in _CLIENTS for kind in type(error).__mro__)


def _report_known(error: Exception) -> None:
    """Report the error if `ops.errors` knows it, by typer.Exit; return otherwise."""
    from ops.errors import UnreachableError, in_plain_words  # noqa: PLC0415 - the AWS SDK would double the start-up time

    try:
        if isinstance(error, UnreachableError):
            raise error
        with suppress(type(error)), in_plain_words():
            raise error
    except UnreachableError as known:
        fail(str(known))


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or "no reason given"


def _forget_output() -> None:
    """Lead standard output away: the reader of the pipe is gone, and Python would flush to it once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
