"""The Ray image's requirements: what resolved together is what is installed."""

import re
import subprocess
from pathlib import Path

from config import versions
from k8s_charts.image_context import FURTHER_REQUIREMENTS, RAY_IMAGE_DIRECTORY

LOCKED = (RAY_IMAGE_DIRECTORY / "requirements.txt").read_text()
WANTED = (RAY_IMAGE_DIRECTORY / "requirements.in").read_text()
PIN = re.compile(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^\s\\]+)", re.MULTILINE)


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
    """With click 8.3.0 to 8.5.0 every `ray` command fails on Python 3.10, and every worker waits for ever."""
    locked = dict(PIN.findall(LOCKED))
    assert locked["ray"] == versions.RAY
    assert locked["click"] == "8.1.7"
    assert f"ray:{versions.RAY}-py310" in versions.RAY_BASE_IMAGE


def test_no_registrys_host_is_named() -> None:
    assert "://" not in LOCKED


def test_further_packages_are_held_to_every_locked_version(tmp_path: Path) -> None:
    """pip takes no constraint with extras, and with hashes it would want them of the further packages too."""
    [command] = re.findall(r"sed -nE (?:.|\n)*?locked\.txt", (RAY_IMAGE_DIRECTORY / "Dockerfile").read_text())
    (tmp_path / "requirements.txt").write_text(LOCKED)
    subprocess.run(["/bin/bash", "-c", command], cwd=tmp_path, check=True)
    lines = (tmp_path / "locked.txt").read_text().splitlines()
    assert lines == [f"{name}=={version}" for name, version in PIN.findall(LOCKED)]


def test_the_committed_context_asks_for_nothing_further() -> None:
    lines = (RAY_IMAGE_DIRECTORY / FURTHER_REQUIREMENTS).read_text().splitlines()
    assert all(line.startswith("#") for line in lines)
