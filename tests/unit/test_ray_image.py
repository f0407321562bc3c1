"""The Ray image's requirements: what resolved together is what is installed."""

import re

from config import versions
from k8s_charts.assembly import RAY_IMAGE_DIRECTORY

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
