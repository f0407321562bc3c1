"""Keeps tests away from what users edit: `environments/`, and `manifests/`, which is rendered from it.

Tests read the environments of `tests/environments/`; a test that opens a user's file would fail after the user's edit.
Programs that tests start inherit the folder's name.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
ENVIRONMENTS: Final = REPOSITORY / "environments"
MANIFESTS: Final = REPOSITORY / "manifests"
FROZEN: Final = REPOSITORY / "tests" / "environments"
VARIABLE: Final = "RAYHP_ENVIRONMENTS"
"""config.load's DIRECTORY_VARIABLE; this is imported before `config` is."""

_FOLDERS: Final = (f"{ENVIRONMENTS}/", f"{MANIFESTS}/")
# `ops schema` makes it of the models: it is the project's.
_SCHEMA: Final = str(ENVIRONMENTS / "schema.json")
_PROGRAMS: Final = frozenset({"app.py", "cdk", "make", "ops", "rehearsal"})
_EVENTS: Final = frozenset({"open", "os.listdir", "os.scandir"})
_reading = False


class UsersFileError(AssertionError):
    """A test opened a file or a folder that users edit."""


@contextmanager
def reading() -> Iterator[None]:
    """Let the one test of the users' files read them."""
    global _reading  # noqa: PLW0603
    _reading = True
    try:
        yield
    finally:
        _reading = False


def keep_away() -> None:
    """Let tests, and the programs that they start, read the frozen environments; refuse this process the users'."""
    os.environ[VARIABLE] = str(FROZEN)
    sys.addaudithook(_refuse)


def _refuse_program(arguments: Sequence[Any], directory: Any, variables: Mapping[str, str] | None) -> None:
    """Refuse to start what reads environments, in the project itself, without the name of the frozen ones."""
    if variables is None or VARIABLE in variables or Path(directory or ".").resolve() != REPOSITORY:
        return
    words = {os.path.basename(os.fsdecode(word)) for word in arguments}  # noqa: PTH119
    if words & _PROGRAMS:
        raise UsersFileError(f"a test starts {arguments} without {VARIABLE}: it would read {ENVIRONMENTS}")


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        _refuse_program(*arguments[1:])
    if event not in _EVENTS or _reading or isinstance(arguments[0], int | None):
        return
    given = os.fsdecode(arguments[0])
    if event == "open" and arguments[1] is None and not given.startswith("/"):
        # os.open: what shutil.rmtree opens so is relative to a folder that the hook is not told.
        return
    path = os.path.abspath(given)  # noqa: PTH100 (the hook sees each file that is opened)
    if f"{path}/".startswith(_FOLDERS) and path != _SCHEMA:
        raise UsersFileError(f"a test opens {path}, which users edit: read {FROZEN} (config.load does) instead")
