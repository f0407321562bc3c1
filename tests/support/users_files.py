"""Refuse tests the files that users edit: `environments/`, and `manifests/`, which is rendered from it.

A test that reads a user's file would fail after the user's edit. Tests read `tests/environments/` instead, and the
programs that they start inherit this folder's name.
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
"""DIRECTORY_VARIABLE of config.load, repeated because this module is imported before `config`."""

_FOLDERS: Final = (f"{ENVIRONMENTS}/", f"{MANIFESTS}/")
# Belongs to the project: `ops schema` writes it from the models.
_SCHEMA: Final = str(ENVIRONMENTS / "schema.json")
_PROGRAMS: Final = frozenset({"app.py", "cdk", "make", "ops", "rehearsal"})
_EVENTS: Final = frozenset({"open", "os.listdir", "os.scandir"})
_reading = False


class UsersFileError(AssertionError):
    """A test opened a file or a folder that users edit, or started a program that would."""


@contextmanager
def reading() -> Iterator[None]:
    """Allow the one test of the users' files to read them until the block ends."""
    global _reading  # noqa: PLW0603
    _reading = True
    try:
        yield
    finally:
        _reading = False


def keep_away() -> None:
    """Direct tests and the programs that they start to the frozen environments, and refuse the users' files."""
    os.environ[VARIABLE] = str(FROZEN)
    sys.addaudithook(_refuse)


def _refuse_program(arguments: Sequence[Any], directory: Any, variables: Mapping[str, str] | None) -> None:
    """Raise if a program of the project starts in the repository without the variable of the frozen environments."""
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
        # os.open with a relative path, as shutil.rmtree calls it: the hook does not learn the base folder.
        return
    path = os.path.abspath(given)  # noqa: PTH100 (pathlib is too slow: the hook runs for each opened file)
    if f"{path}/".startswith(_FOLDERS) and path != _SCHEMA:
        raise UsersFileError(f"a test opens {path}, which users edit: read {FROZEN} (config.load does) instead")
