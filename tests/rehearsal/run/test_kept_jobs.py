"""A job in a kept rehearsal with real Ray, as docs/getting-started.md types it, survives the loss of its worker."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from rehearsal.job.machine import require_machine
from rehearsal.paths import RAY_ENVIRONMENT
from tests.rehearsal.run import readme
from tests.rehearsal.run.checkout import Checkout
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS

pytestmark = [pytest.mark.kept_jobs, pytest.mark.product]

MAKE = "make --assume-old=setup --assume-old=setup-jobs --no-print-directory"


@pytest.fixture
def checkout(tmp_path: Path, programs: Binaries) -> Iterator[Checkout]:
    """A clone with the jobs' Python environment; what it keeps is ended."""
    assert programs
    require_machine()
    made = Checkout(tmp_path / "checkout")
    (made.directory / RAY_ENVIRONMENT.name).symlink_to(RAY_ENVIRONMENT)
    yield made
    made.run(*MAKE.split(), "rehearse-down")


def pasted(checkout: Checkout, command: str) -> list[str]:
    """The words that run a command in a shell of the kept rehearsal."""
    look = checkout.runs / "runs" / "dev" / "look.sh"
    return ["bash", "-c", f"set -e\nsource {look}\n{command}"]


def test_a_job_of_the_page_resumes_after_the_loss_of_a_worker(checkout: Checkout) -> None:
    code, shown = checkout.run(*readme.REHEARSE_JOBS.replace("make", MAKE).split())
    assert code == 0, shown
    assert "so jobs run." in shown
    with checkout.start(*pasted(checkout, readme.SUBMIT_PRACTICE)) as submitting:
        assert submitting.stdout
        deadline, seen = time.monotonic() + REHEARSAL_PATIENCE_SECONDS, list[str]()
        for line in submitting.stdout:
            seen.append(line)
            assert time.monotonic() < deadline, "".join(seen)
            if "checkpoint of step" in line:
                break
        code, shown = checkout.run(*readme.LOSE_NODE.replace("make", MAKE).split())
        assert code == 0, shown
        seen += submitting.stdout
    followed = "".join(seen)
    assert submitting.returncode == 0, followed
    assert re.search(r"run practice attempt 0001\.\d+: resumes from step [1-9]\d*0 ", followed), followed
    code, shown = checkout.run(*pasted(checkout, readme.LIST_JOBS))
    assert code == 0, shown
    assert re.search(r"^practice +supervised +rayml +succeeded", shown, re.MULTILINE), shown
