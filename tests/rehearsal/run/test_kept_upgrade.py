"""The page's upgrade from the walkthrough's versions to the newest, typed in a kept rehearsal while a job trains."""

import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from config.facts.versions import SETS
from embedded_account.kubernetes.building.binaries import Binaries
from rehearsal.job.machine import require_machine
from rehearsal.paths import ray_environment
from tests.rehearsal.run import readme
from tests.rehearsal.run.checkout import Checkout
from tests.rehearsal.run.test_kept_jobs import MAKE, pasted
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS

pytestmark = pytest.mark.kept_upgrade
INSTALLED = ("walkthrough", "current")


@pytest.fixture
def checkout(tmp_path: Path, programs: Binaries) -> Iterator[Checkout]:
    """A clone with the Python environments of both sets; what it keeps is ended."""
    assert programs
    made = Checkout(tmp_path / "checkout")
    for name in INSTALLED:
        require_machine(ray_environment(name))
        (made.directory / ray_environment(name).name).symlink_to(ray_environment(name))
    yield made
    made.run(*MAKE.split(), "rehearse-down")


def test_a_job_of_the_page_resumes_on_the_ray_of_the_other_set(checkout: Checkout) -> None:
    code, shown = checkout.run(*readme.REHEARSE_JOBS.replace("make", MAKE).split())
    assert code == 0, shown
    assert f"Sets of versions for `ops upgrade --to`: {', '.join(INSTALLED)}." in shown
    with checkout.start(*pasted(checkout, readme.SUBMIT_LONG_PRACTICE)) as submitting:
        assert submitting.stdout
        until(r"checkpoint of step", submitting.stdout)
        code, shown = checkout.run(*pasted(checkout, f"{readme.UPGRADE_PRACTICE} --yes"))
        assert code == 0, shown
        assert f"Ray {SETS['walkthrough'].ray} → {SETS['current'].ray}" in shown
        until(r"run practice attempt 0002\.\d+: resumes from step [1-9]", submitting.stdout)
        code, shown = checkout.run(*pasted(checkout, readme.STOP_PRACTICE))
        assert code == 0, shown
        for _ in submitting.stdout:
            """Let it end."""


def until(found: str, lines: Iterable[str]) -> None:
    """Read lines up to one in which the pattern is found."""
    deadline, seen = time.monotonic() + REHEARSAL_PATIENCE_SECONDS, list[str]()
    for line in lines:
        seen.append(line)
        assert time.monotonic() < deadline, "".join(seen)
        if re.search(found, line):
            return
    raise AssertionError("".join(seen))
