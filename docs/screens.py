"""Draw the pictures of the screens of `ops` in docs/pictures/: `make pictures`.

Each command of SCREENS runs in a pseudo-terminal, in the setting that it needs. To add a picture, add a line to
SCREENS, and show the picture on a page.

Usage: python docs/screens.py [NAME]...
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from terminal import COLUMNS, PICTURES, draw, shown

from bench.checkout import checkout
from config.load import DIRECTORY_VARIABLE
from rehearsal.paths import REPOSITORY, run_directory
from rehearsal.run import access


class Setting(Enum):
    """Where a command runs."""

    CHECKOUT = auto()
    """A copy of this checkout with an example, without an account."""
    PULL_REQUEST = auto()
    """A copy of the checkout in which CHANGES were made, beside its base."""
    ACCOUNT = auto()
    """A kept rehearsal of dev."""


@dataclass(frozen=True)
class Screen:
    """A command and its setting."""

    command: str
    setting: Setting = Setting.CHECKOUT


@dataclass(frozen=True)
class ScreenSetting:
    """A setting that is set up: the folder, the variables, and arguments that the picture does not show."""

    directory: Path = REPOSITORY
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    arguments: tuple[str, ...] = ()


SCREENS: Final[Mapping[str, Screen]] = {
    "help": Screen("ops --help"),
    "check": Screen("ops check --env dev"),
    "explain": Screen("ops explain V55"),
    "review": Screen("ops review ../base --env dev", Setting.PULL_REQUEST),
    "preflight": Screen("ops preflight --env dev", Setting.ACCOUNT),
    "status": Screen("ops status --env dev", Setting.ACCOUNT),
    "destroy": Screen("ops destroy --env dev --dry-run", Setting.ACCOUNT),
}
CHANGES: Final = {
    "count: 4": "count: 6",
    "replicas: 4": "replicas: 6",
    "cpu: 2": "cpu: 3",
    "[203.0.113.0/24]": "[203.0.113.0/24, 198.51.100.0/24]",
}
"""The pull request of the picture: more nodes, a larger head, one more address range."""
_ENVIRONMENT: Final = "dev"


def path(name: str) -> Path:
    """Return the file of a picture of SCREENS."""
    return PICTURES / f"{name}.svg"


@contextmanager
def _checkout() -> Iterator[ScreenSetting]:
    with tempfile.TemporaryDirectory() as made:
        variables = {name: value for name, value in os.environ.items() if name != DIRECTORY_VARIABLE}
        yield ScreenSetting(_copy(Path(made, "checkout")), variables)


def _copy(folder: Path) -> Path:
    (checkout(folder, [_ENVIRONMENT]) / ".venv").symlink_to(REPOSITORY / ".venv")
    return folder


@contextmanager
def _pull_request() -> Iterator[ScreenSetting]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for side in ("base", "head"):
            _copy(folder / side)
        file = folder / "head" / "environments" / f"{_ENVIRONMENT}.yaml"
        text = file.read_text()
        for before, after in CHANGES.items():
            if before not in text:
                raise ValueError(f"{before!r} is not in {file.name}. Fix: change CHANGES of docs/screens.py")
            text = text.replace(before, after, 1)
        file.write_text(text)
        charts = folder / "charts"
        subprocess.run([sys.executable, "-m", "rehearsal.stand_ins", str(charts)], cwd=REPOSITORY, check=True)
        yield ScreenSetting(folder / "head", arguments=("-c", "charts=stand-in", "-c", f"stand-in-charts={charts}"))


@contextmanager
def _account() -> Iterator[ScreenSetting]:
    rehearsal = [sys.executable, "-m", "rehearsal"]
    subprocess.run([*rehearsal, "run", "--env", _ENVIRONMENT, "--keep"], cwd=REPOSITORY, check=True)
    try:
        source = shlex.quote(str(run_directory(_ENVIRONMENT) / access.NAME))
        given = subprocess.run(
            ["/bin/bash", "-c", f"source {source}; env -0"], stdout=subprocess.PIPE, text=True, check=True
        )
        yield ScreenSetting(variables=dict(line.split("=", 1) for line in given.stdout.split("\0") if line))
    finally:
        subprocess.run([*rehearsal, "down"], cwd=REPOSITORY, check=True)


SETTINGS: Final[Mapping[Setting, Callable[[], AbstractContextManager[ScreenSetting]]]] = {
    Setting.CHECKOUT: _checkout,
    Setting.PULL_REQUEST: _pull_request,
    Setting.ACCOUNT: _account,
}


def main(names: list[str]) -> int:
    """Draw these pictures, or all if `names` is empty; return 1 if one cannot be drawn."""
    if unknown := set(names) - SCREENS.keys():
        print(f"pictures {sorted(unknown)} are unknown. Allowed: {', '.join(SCREENS)}", file=sys.stderr)
        return 1
    chosen = {name: SCREENS[name] for name in names or SCREENS}
    failed = 0
    for setting in dict.fromkeys(screen.setting for screen in chosen.values()):
        with SETTINGS[setting]() as place:
            for name, screen in chosen.items():
                if screen.setting is setting:
                    failed |= _draw(name, place)
    return failed


def _draw(name: str, place: ScreenSetting) -> int:
    try:
        path(name).write_text(drawn(name, place))
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    print(f"{path(name)} written", flush=True)
    return 0


def drawn(name: str, place: ScreenSetting) -> str:
    """Return the picture of a screen in its setting, as SVG; raise ValueError if the command shows none."""
    command = SCREENS[name].command
    # As a module, it is the one of the setting's folder.
    argv = [sys.executable, "-m", *shlex.split(command), *place.arguments]
    return draw(command, shown(argv, directory=place.directory, variables=place.variables), COLUMNS, name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
