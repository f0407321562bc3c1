"""A whole rehearsal whose caller has credentials, clusters and proxies: none of them changes or learns anything."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from rehearsal.paths import CACHE
from rehearsal.rights.compare import surplus
from tests.rehearsal.run.checkout import Checkout, eventually_none_below
from tests.rehearsal.run.network import watched
from tests.rehearsal.run.planted import SECRETS, Home, Seen

pytestmark = pytest.mark.isolation

# What CI rehearses so instead of once more.
ENVIRONMENT = os.environ.get("REHEARSED", "small")


@dataclass
class Told:
    """A rehearsal in a clone, from its begin to its end."""

    checkout: Checkout
    before: dict[str, Seen]
    after: dict[str, Seen]
    leaving: list[str]
    code: int
    output: str


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, programs: Binaries) -> Told:
    assert programs
    directory = tmp_path_factory.mktemp("isolation")
    checkout, home = Checkout(directory / "checkout"), Home(directory / "planted")
    before = home.look()
    variables = checkout.environment(**home.variables())
    with watched(checkout.directory, directory / "leaving") as network:
        # Without the set-up: the clone has its packages.
        make = ("make", "--assume-old=setup-rehearsal", "--no-print-directory", "rehearse", f"ENV={ENVIRONMENT}")
        code, output = checkout.run(*network.prefix, *make, env=variables)
        return Told(checkout, before, home.look(), network.leaving(), code, output)


def files_with(*words: str, below: Path) -> list[str]:
    """Files that hold one of the words; links are not followed."""
    argv = ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "\n".join(words), str(below)]
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.splitlines()


def test_a_rehearsal_succeeds_whatever_the_caller_s_configuration_says(told: Told) -> None:
    assert told.code == 0, told.output


def test_no_call_leaves_localhost(told: Told) -> None:
    assert told.leaving == []


def test_the_caller_s_files_are_neither_read_nor_touched_and_nothing_is_written_beside_them(told: Told) -> None:
    assert sorted(told.after) == sorted(told.before)
    assert {name for name, seen in told.after.items() if seen != told.before[name]} == set()


def test_no_log_and_no_file_of_the_rehearsal_holds_a_secret_of_the_caller_s(told: Told) -> None:
    assert [secret for secret in SECRETS if secret in told.output] == []
    assert any(file.endswith("/journal.jsonl") for file in files_with("111122223333", below=told.checkout.runs))
    assert files_with(*SECRETS, below=told.checkout.runs) == []
    assert files_with(*SECRETS, below=CACHE / "cdk") == []


def test_every_right_that_it_exercises_is_needed(told: Told) -> None:
    assert surplus(told.checkout.runs.glob("runs/*/account/journal.jsonl")) == []


def test_no_process_is_left(told: Told) -> None:
    assert eventually_none_below(told.checkout.directory) == {}
