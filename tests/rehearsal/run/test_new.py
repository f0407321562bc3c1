"""A new environment, as the pages lead to it: written by `ops new` at a terminal, checked, and rehearsed whole."""

import os
import re
from pathlib import Path

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from rehearsal.rights.compare import surplus
from tests.rehearsal.run import first_day, readme
from tests.rehearsal.run.checkout import Checkout
from tests.rehearsal.run.terminal import at_a_terminal

pytestmark = pytest.mark.new

LIKE = os.environ.get("LIKE")
COMPARED = {"existing-eks", "slurm"}
"""The examples whose rehearsals are known to exercise all that docs/reference/rights.md has in bold."""
# An account, a role and a network that no example has. A copy of existing-vpc keeps the zones of its subnets.
ANSWERS = {
    "account id": "444455556666",
    "AWS region": "us-west-2",
    "zone ids": "usw2-az3 usw2-az1",
    "ARNs": "arn:aws:iam::444455556666:role/teams/Trainers",
    "addresses": "198.51.100.7",
}


def test_what_ops_new_writes_is_accepted_deployed_and_destroyed(tmp_path: Path, programs: Binaries) -> None:
    assert programs
    checkout = Checkout(tmp_path / "checkout")

    def types(command: str) -> str:
        line = f"{first_day.ACTIVATE.command} && {command}"
        typed = at_a_terminal(line, cwd=checkout.directory, env=checkout.environment(), answers=ANSWERS)
        assert typed.code == 0, typed.shown
        return typed.shown

    assert readme.written(readme.NEW)
    types(f"{readme.NEW} --like {LIKE}" if LIKE else readme.NEW)
    file = checkout.directory / "environments" / "trial.yaml"
    assert "${" not in file.read_text()
    assert "trial: account 444455556666, us-west-2" in types(readme.CHECK.replace("dev", "trial"))
    # Without the set-up: the clone has its packages.
    make = ("make", "--assume-old=setup-rehearsal", "--no-print-directory")
    code, shown = checkout.run(*make, "rehearse", "ENV=trial", "KILLS=3")
    assert code == 0, shown
    done = re.findall(r"^✔ (cdk deploy --all|ops drift|ops destroy|inventory) ", shown, re.MULTILINE)
    assert done[:3] == ["cdk deploy --all", "ops drift", "ops destroy"], shown
    assert done[-1] == "inventory", shown
    [page] = checkout.runs.glob("runs/*/timeline.html")
    assert "<title>Deployment of trial, in AWS" in page.read_text()
    if LIKE in COMPARED:
        assert surplus(checkout.runs.glob("runs/*/account/journal.jsonl")) == []
