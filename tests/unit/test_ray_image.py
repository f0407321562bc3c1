"""The Ray image's requirements: exactly the versions that were resolved together are installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from config.facts import versions
from k8s_charts.image_build.context import FURTHER_REQUIREMENTS, RAY_IMAGE_DIRECTORY

LOCKED = (RAY_IMAGE_DIRECTORY / "requirements.txt").read_text()
WANTED = (RAY_IMAGE_DIRECTORY / "requirements.in").read_text()
PIN = re.compile(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^\s\\]+)", re.MULTILINE)


# The base image's platform: CPython 3.10, glibc 2.35 (Ubuntu 22.04). The lock requires an older glibc.
PLATFORM = ("--python-version=3.10", "--python-platform=x86_64-manylinux_2_31", "--only-binary=:all:")
# Without this, uv would download a CPython 3.10, which resolving does not need.
QUIET = "--no-python-downloads"
UNREACHABLE = ("error sending request", "Failed to fetch", "dns error", "timed out")


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run uv's `pip` for the image's platform; skip the test where the index cannot be reached."""
    command = [str(Path(sys.executable).with_name("uv")), "pip", *map(str, arguments), *PLATFORM, QUIET]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip("the package index cannot be reached")
    return done


@pytest.mark.network
def test_what_is_asked_for_resolves_to_the_lock_and_to_nothing_else() -> None:
    """All packages resolve together, and each package's own requirements are met."""
    constraint = ("--constraint", RAY_IMAGE_DIRECTORY / "requirements.txt")
    done = uv("compile", "--no-annotate", "--no-header", *constraint, RAY_IMAGE_DIRECTORY / "requirements.in")
    assert done.returncode == 0, done.stderr
    assert PIN.findall(done.stdout) == PIN.findall(LOCKED)


@pytest.mark.network
def test_index_has_a_wheel_with_a_locked_hash_for_everything(tmp_path: Path) -> None:
    lock = ("--requirement", RAY_IMAGE_DIRECTORY / "requirements.txt")
    done = uv("install", "--dry-run", "--no-deps", "--require-hashes", *lock, "--target", tmp_path)
    assert done.returncode == 0, done.stderr
    planned = re.findall(r"^ \+ ([a-z0-9-]+)==(\S+)$", done.stderr, re.MULTILINE)
    assert sorted(planned) == PIN.findall(LOCKED)


@pytest.mark.network
def test_walkthroughs_own_list_does_not_resolve(tmp_path: Path) -> None:
    """The walkthrough's tqdm is older than its datasets requires: the two tests above would report it."""
    theirs = tmp_path / "requirements.in"
    theirs.write_text(re.sub(r"(?m)^tqdm==.*$", "tqdm==4.66.1", WANTED))
    done = uv("compile", theirs)
    assert done.returncode != 0
    assert "datasets==3.3.2 depends on tqdm>=4.66.3" in done.stderr


def test_every_requirement_is_pinned_with_hashes() -> None:
    entries = LOCKED.replace("\\\n", "").splitlines()
    assert len(entries) > 50
    assert all(PIN.match(entry) and "--hash=sha256:" in entry for entry in entries)


def test_lock_holds_what_is_asked_for() -> None:
    locked = dict(PIN.findall(LOCKED))
    wanted = dict(PIN.findall(WANTED))
    assert wanted.items() <= locked.items()
    assert len(wanted) == sum(1 for line in WANTED.splitlines() if line and not line.startswith("#"))


def test_ray_is_the_base_images_and_its_command_line_works() -> None:
    """With click 8.3.0 to 8.5.0, every `ray` command fails on Python 3.10, and every worker waits forever."""
    locked = dict(PIN.findall(LOCKED))
    assert locked["ray"] == versions.RAY
    assert locked["click"] == "8.1.7"
    assert f"ray:{versions.RAY}-py310" in versions.RAY_BASE_IMAGE


def test_no_registrys_host_is_named() -> None:
    assert "://" not in LOCKED


def test_further_packages_are_held_to_every_locked_version(tmp_path: Path) -> None:
    """pip accepts no constraint with extras, and in hash mode it would require hashes of further packages too."""
    [command] = re.findall(r"sed -nE (?:.|\n)*?locked\.txt", (RAY_IMAGE_DIRECTORY / "Dockerfile").read_text())
    (tmp_path / "requirements.txt").write_text(LOCKED)
    subprocess.run(["/bin/bash", "-c", command], cwd=tmp_path, check=True)
    lines = (tmp_path / "locked.txt").read_text().splitlines()
    assert lines == [f"{name}=={version}" for name, version in PIN.findall(LOCKED)]


def test_the_committed_context_asks_for_nothing_further() -> None:
    lines = (RAY_IMAGE_DIRECTORY / FURTHER_REQUIREMENTS).read_text().splitlines()
    assert all(line.startswith("#") for line in lines)
