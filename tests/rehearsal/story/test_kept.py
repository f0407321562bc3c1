"""A kept rehearsal stays when its process has ended, can be looked at, and ends when it is told."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

from rehearsal.kubernetes.binaries import Binaries
from rehearsal.paths import REPOSITORY
from tests.rehearsal.story import cluster_app, kept_rehearsal
from tests.rehearsal.story.checkout import Checkout, eventually_none_below
from tests.waiting import PATIENCE

# Without the set-up: the clone has its packages.
MAKE = ("make", "--assume-old=setup", "--no-print-directory")


@dataclass
class Kept:
    """A rehearsal that runs in a clone, and what the program said that started it."""

    checkout: Checkout
    output: str

    def shown(self, variable: str) -> str:
        """The value of a variable that it says to export."""
        found = re.search(rf"{variable}=(\S+)", self.output)
        assert found, self.output
        return found[1]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, programs: Binaries) -> Iterator[Kept]:
    assert programs
    checkout = Checkout(tmp_path_factory.mktemp("kept") / "checkout")
    checkout.replace_app(cluster_app)
    env = checkout.environment(PYTHONPATH=os.pathsep.join([str(checkout.directory), str(REPOSITORY)]))
    code, output = checkout.run(".venv/bin/python", "-m", kept_rehearsal.__name__, env=env)
    try:
        assert code == 0, output
        yield Kept(checkout, output)
    finally:
        checkout.run(*MAKE, "rehearse-down")


def test_make_asks_to_keep_it(kept: Kept) -> None:
    code, commands = kept.checkout.run(*MAKE, "--dry-run", "rehearse", "KEEP=1", f"ENV={cluster_app.ENVIRONMENT}")
    assert code == 0, commands
    assert commands.endswith(f"python -m rehearsal run --env {cluster_app.ENVIRONMENT} --keep\n")


def test_it_is_kept_once_the_rayclusters_are_ready(kept: Kept) -> None:
    assert re.search(r".*".join([*kept_rehearsal.SKIPPED, "It stays until"]), kept.output, re.DOTALL), kept.output


def test_it_says_how_to_look_at_it_and_can_be_looked_at(kept: Kept, programs: Binaries) -> None:
    kubectl = (str(programs["kubectl"]), "--kubeconfig", kept.shown("KUBECONFIG"))
    code, shown = kept.checkout.run(*kubectl, "get", "namespaces")
    assert code == 0, shown
    assert re.search(r"^kube-system +Active", shown, re.MULTILINE), shown
    assert requests.get(f"{kept.shown('AWS_ENDPOINT_URL')}/_rehearsal/health", timeout=PATIENCE).status_code == 200


def test_rehearse_down_ends_every_process(kept: Kept) -> None:
    assert kept.checkout.processes()
    assert kept.checkout.run(*MAKE, "rehearse-down") == (0, "ended: account\n")
    assert eventually_none_below(kept.checkout.directory) == {}
    assert kept.checkout.run(*MAKE, "rehearse-down") == (0, "nothing was running\n")
