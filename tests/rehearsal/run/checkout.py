"""A clone of the repository for one test: what runs in it collides with nothing, and what it leaves is seen."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from config.facts import support
from embedded_account.testing.processes import processes_below
from rehearsal.paths import BINARIES, CACHE, NODE_MODULES, REPOSITORY
from rehearsal.run import cdk
from tests.support.users_files import FROZEN
from tests.support.waiting import PATIENCE_SECONDS, REHEARSAL_PATIENCE_SECONDS

JSII: Final = "JSII_RUNTIME_PACKAGE_CACHE_ROOT"
_PARTS: Final = (
    *("Makefile", "README.md", "app.py", "cdk.json", "package.json", "package-lock.json", "pyproject.toml"),
    *("requirements", "requirements.txt", "setup.sh"),
    *("config", "controllers", "environments", "handlers", "k8s_charts"),
    *("lifecycle_scripts", "ops", "packages/ray-resume", "ray_image", "ray_jobs", "rehearsal"),
    "stacks",
)


class Checkout:
    """A copy of the project with the tests' environments; installed packages and built programs are the original's."""

    def __init__(self, directory: Path, *, programs: Path = BINARIES) -> None:
        self.directory = directory
        self.runs = directory / ".rehearsal"
        directory.mkdir(parents=True)
        for part in _PARTS:
            source = FROZEN if part == "environments" else REPOSITORY / part
            if source.is_dir():
                # With the bytecode: each process in the clone would compile hundreds of modules.
                shutil.copytree(source, directory / part)
            else:
                shutil.copy2(source, directory / part)
        self._link_packages(Path(sys.prefix))
        (directory / "node_modules").symlink_to(NODE_MODULES)
        (self.runs / "cache").mkdir(parents=True)
        # What a synthesis and the CDK CLI unpack and compile at first takes half a minute of a core.
        for name, kept in {"bin": programs, "cdk": CACHE / "cdk"}.items():
            kept.mkdir(parents=True, exist_ok=True)
            (self.runs / "cache" / name).symlink_to(kept)

    def _link_packages(self, original: Path) -> None:
        """Give the clone an environment of its own: `ops` refuses to run from another checkout's."""
        own = self.directory / ".venv"
        (own / "bin").mkdir(parents=True)
        for each in (*original.iterdir(), *(original / "bin").iterdir()):
            link = own / each.relative_to(original)
            if link.name == "activate":
                link.write_text(each.read_text().replace(str(original), str(own)))
            elif link.name != "bin":
                link.symlink_to(each)

    def replace_app(self, app: ModuleType) -> None:
        """Let the CDK app be a module of the tests."""
        assert app.__file__
        shutil.copy2(app.__file__, self.directory / "app.py")

    def environment(self, **more: str) -> dict[str, str]:
        """Variables of a user who has nothing but this clone; `more` is added, and replaces."""
        home = self.directory.parent / "home"
        home.mkdir(exist_ok=True)
        own = {
            "PATH": os.pathsep.join([str(self.directory / ".venv" / "bin"), _system_path()]),
            "HOME": str(home),
            # The installed `ops` is the original's; this one comes first.
            "PYTHONPATH": str(self.directory),
            "COLUMNS": "200",
            "RAYHP_CHARTS": str(home / "charts"),
            support.TODAY_VARIABLE: str(support.today()),
            # A `cdk` typed in the clone would unpack aws-cdk-lib into the new home: four seconds of a core.
            JSII: cdk.kept_folders(CACHE / "cdk")[JSII],
        }
        return own | more

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command in the clone; its output, errors included, is one text."""
        return subprocess.Popen(
            # Whoever runs the tests in the background lets them ignore SIGINT.
            ["/usr/bin/env", "--default-signal=INT", *argv],
            cwd=self.directory,
            env=self.environment() if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a command in the clone; return its exit code and its output, errors included."""
        with self.start(*argv, env=env) as process:
            try:
                output, _ = process.communicate(timeout=REHEARSAL_PATIENCE_SECONDS)
            except BaseException:
                process.terminate()
                raise
        return process.returncode, output

    def rehearse(self, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run `python -m rehearsal …`, as `make` does."""
        return self.run(*rehearsal(*arguments), env=env)

    def processes(self) -> dict[int, str]:
        """Command lines of the processes that run in this clone, by pid."""
        return processes_below(self.directory)


def rehearsal(*arguments: str) -> Sequence[str]:
    """The command behind `make rehearse` and its like."""
    return [".venv/bin/python", "-m", "rehearsal", *arguments]


def eventually_none_below(directory: Path) -> dict[int, str]:
    """The processes that are still there when patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := processes_below(directory)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def assert_one_clear_message(output: str, *said: str) -> None:
    """Each of `said` (regular expressions) is in the output, and no trace of a program's inside."""
    for pattern in said:
        assert re.search(pattern, output), f"{pattern!r} is not said in:\n{output}"
    assert not re.search(r"Traceback|^\s+File \".*\", line \d+|^\s+at .*:\d+:\d+\)?$", output, re.MULTILINE), output


def _system_path() -> str:
    """PATH without this environment's own programs, which the clone brings itself."""
    own = Path(sys.prefix)
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(part for part in parts if not Path(part).is_relative_to(own))
