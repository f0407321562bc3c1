"""The Ray image's requirements: exactly the versions that were resolved together are installed."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from config.facts.support import number
from config.facts.versions import RAY_PYTHON, SET_DEFAULT, SETS, SetName, VersionSet
from config.rules.image import CUDA_RUNTIME, locked
from k8s_charts.image_build.context import FURTHER_REQUIREMENTS, RAY_IMAGE_DIRECTORY

REPOSITORY = RAY_IMAGE_DIRECTORY.parent
WANTED = (RAY_IMAGE_DIRECTORY / "requirements.in").read_text()
PIN = re.compile(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^\s\\]+)", re.MULTILINE)


# The base image's platform: glibc 2.35 (Ubuntu 22.04). The lock requires an older glibc.
PLATFORM = ("--python-platform=x86_64-manylinux_2_31", "--only-binary=:all:")
# Without this, uv would download that CPython, which resolving does not need.
QUIET = "--no-python-downloads"
each_set = pytest.mark.parametrize("version_set", SETS.values(), ids=SETS)
UNREACHABLE = ("error sending request", "Failed to fetch", "dns error", "timed out")


def lock_of(version_set: VersionSet) -> Path:
    return RAY_IMAGE_DIRECTORY / version_set.requirements


def overrides_of(version_set: VersionSet) -> Path:
    """Return the file of what the set has instead of the walkthrough's versions; the walkthrough has none."""
    return lock_of(version_set).with_name("overrides.in")


def wanted_by(version_set: VersionSet) -> dict[str, str]:
    """Return the version of each package that is asked for."""
    file = overrides_of(version_set)
    return dict(PIN.findall(WANTED)) | (dict(PIN.findall(file.read_text())) if file.exists() else {})


def locked_by(version_set: VersionSet) -> list[tuple[str, str]]:
    """Return the locked packages with their versions."""
    return PIN.findall(lock_of(version_set).read_text())


def uv(version_set: VersionSet, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run uv's `pip` for the image's platform; skip the test where the index cannot be reached."""
    command = [str(Path(sys.executable).with_name("uv")), "pip", *map(str, arguments), *PLATFORM, QUIET]
    command += ["--python-version", version_set.python]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip("the package index cannot be reached")
    return done


@pytest.mark.network
@each_set
def test_what_is_asked_for_resolves_to_the_lock_and_to_nothing_else(version_set: VersionSet) -> None:
    """All packages resolve together, and each package's own requirements are met."""
    options: list[str | Path] = ["--constraint", lock_of(version_set)]
    options += ["--override", overrides_of(version_set)] if overrides_of(version_set).exists() else []
    done = uv(version_set, "compile", "--no-annotate", "--no-header", *options, RAY_IMAGE_DIRECTORY / "requirements.in")
    assert done.returncode == 0, done.stderr
    assert PIN.findall(done.stdout) == locked_by(version_set)


@pytest.mark.network
@each_set
def test_index_has_a_wheel_with_a_locked_hash_for_everything(version_set: VersionSet, tmp_path: Path) -> None:
    lock = ("--requirement", lock_of(version_set))
    done = uv(version_set, "install", "--dry-run", "--no-deps", "--require-hashes", *lock, "--target", tmp_path)
    assert done.returncode == 0, done.stderr
    planned = re.findall(r"^ \+ ([a-z0-9-]+)==(\S+)$", done.stderr, re.MULTILINE)
    assert sorted(planned) == locked_by(version_set)


@pytest.mark.network
def test_the_walkthrough_s_own_list_does_not_resolve(tmp_path: Path) -> None:
    """The walkthrough's tqdm is older than its datasets requires: the two tests above would report it."""
    theirs = tmp_path / "requirements.in"
    theirs.write_text(re.sub(r"(?m)^tqdm==.*$", "tqdm==4.66.1", WANTED))
    done = uv(SETS["walkthrough"], "compile", theirs)
    assert done.returncode != 0
    assert "datasets==3.3.2 depends on tqdm>=4.66.3" in done.stderr


@each_set
def test_every_requirement_is_pinned_with_hashes_and_names_no_registry_s_host(version_set: VersionSet) -> None:
    text = lock_of(version_set).read_text()
    entries = text.replace("\\\n", "").splitlines()
    assert len(entries) > 50
    assert all(PIN.match(entry) and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in text


@each_set
def test_lock_holds_what_is_asked_for(version_set: VersionSet) -> None:
    assert wanted_by(version_set).items() <= dict(locked_by(version_set)).items()
    assert len(PIN.findall(WANTED)) == sum(1 for line in WANTED.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("name", ["walkthrough", "fixed"])
def test_a_set_differs_from_the_walkthrough_in_what_it_overrides_and_what_that_needs(name: SetName) -> None:
    version_set = SETS[name]
    overridden = dict(PIN.findall(overrides_of(version_set).read_text())) if overrides_of(version_set).exists() else {}
    ours, walkthroughs = dict(locked_by(version_set)), dict(locked_by(SETS["walkthrough"]))
    changed = {name for name in ours.keys() & walkthroughs.keys() if ours[name] != walkthroughs[name]}
    assert changed - {"starlette"} == overridden.keys()


def test_each_newer_set_has_an_override_for_what_it_changes_in_the_list() -> None:
    """A version of the list that a set neither keeps nor overrides would be an accident of resolving."""
    for each in SETS.values():
        assert {name: version for name, version in locked_by(each) if name in wanted_by(each)} == wanted_by(each)


def test_cuda_of_current_computes_on_blackwell_and_runs_on_the_drivers_of_hyperpods_amis() -> None:
    """Blackwell needs CUDA 12.8; driver 580, which every supported AMI has, runs CUDA up to 13.0."""
    cuda = number(locked(SETS["current"], CUDA_RUNTIME))
    assert (12, 8) <= cuda[:2] <= (13, 0)


@each_set
def test_ray_is_the_base_images_and_its_command_line_works(version_set: VersionSet) -> None:
    """With click 8.3.0 to 8.5.0, every `ray` command fails on Python 3.10, and every worker waits forever."""
    packages = dict(locked_by(version_set))
    assert packages["ray"] == version_set.ray
    assert packages["click"] == "8.1.7" or number(packages["click"]) > (8, 5, 0)
    assert f"ray:{version_set.ray}-py{version_set.python.replace('.', '')}-gpu" in version_set.base_image


@each_set
def test_jobs_are_tested_with_the_image_s_lock_and_packages_of_tests_beside_it(version_set: VersionSet) -> None:
    name = next(name for name, each in SETS.items() if each is version_set)
    jobs = REPOSITORY / "requirements" / ("jobs.txt" if name == SET_DEFAULT else f"jobs-{name}.txt")
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup-jobs", f"ROW={name}"],  # noqa: S607 - any make
        cwd=REPOSITORY,
        text=True,
        capture_output=True,
        check=True,
    )
    locks = [str(each.relative_to(REPOSITORY)) for each in (lock_of(version_set), jobs)]
    assert f" --require-hashes {' '.join(locks)}\n" in planned.stdout
    image, tested = dict(locked_by(version_set)), dict(PIN.findall(jobs.read_text()))
    assert {"pytest", "pytest-xdist"} <= tested.keys()
    assert not image.keys() & tested.keys()


def test_rows_name_the_choices_and_the_oldest_python() -> None:
    assert SETS.keys() == {*get_args(SetName)}
    assert min((each.python for each in SETS.values()), key=number) == RAY_PYTHON
    assert {state for each in SETS.values() for state in each.proof.values()} <= {
        *("ran", "ran as 1.2.1", "resolved", "unverified")
    }


@each_set
def test_further_packages_are_held_to_every_locked_version(version_set: VersionSet, tmp_path: Path) -> None:
    """pip accepts no constraint with extras, and in hash mode it would require hashes of further packages too."""
    [command] = re.findall(r"sed -nE (?:.|\n)*?locked\.txt", (RAY_IMAGE_DIRECTORY / "Dockerfile").read_text())
    (tmp_path / "requirements.txt").write_text(lock_of(version_set).read_text())
    subprocess.run(["/bin/bash", "-c", command], cwd=tmp_path, check=True)
    lines = (tmp_path / "locked.txt").read_text().splitlines()
    assert lines == [f"{name}=={version}" for name, version in locked_by(version_set)]


def test_the_committed_context_asks_for_nothing_further() -> None:
    lines = (RAY_IMAGE_DIRECTORY / FURTHER_REQUIREMENTS).read_text().splitlines()
    assert all(line.startswith("#") for line in lines)
