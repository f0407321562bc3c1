"""The caller's credentials, clusters and proxies change nothing; a kept rehearsal stays, and ends when it is told."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal.kubernetes.binaries import Binaries
from tests.rehearsal.story.checkout import Checkout, eventually_none_below
from tests.rehearsal.story.network import Network, watched
from tests.rehearsal.story.planted import SECRETS, Home, Seen


@dataclass
class Kept:
    """A rehearsal that KEEP=1 left running in a clone, started by somebody with credentials of a real account."""

    checkout: Checkout
    network: Network
    variables: dict[str, str]
    home: Home
    before: dict[str, Seen]
    after: dict[str, Seen]
    leaving: list[str]
    code: int
    output: str

    def run(self, *argv: str) -> tuple[int, str]:
        """Run a command where the rehearsal runs."""
        return self.checkout.run(*self.network.prefix, *argv, env=self.variables)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, programs: Binaries) -> Iterator[Kept]:
    directory = tmp_path_factory.mktemp("isolation")
    checkout, home = Checkout(directory / "checkout"), Home(directory / "planted")
    before = home.look()
    variables = checkout.environment(**home.variables())
    with watched(checkout.directory, directory / "leaving") as network:
        # `make rehearse KEEP=1`, without the set-up: the clone has its packages.
        make = ("make", "--assume-old=setup", "--no-print-directory")
        code, output = checkout.run(*network.prefix, *make, "rehearse", "KEEP=1", "ENV=small", env=variables)
        try:
            yield Kept(checkout, network, variables, home, before, home.look(), network.leaving(), code, output)
        finally:
            checkout.run(*network.prefix, *make, "rehearse-down", env=variables)


def files_with(*words: str, below: Path) -> list[str]:
    """Files that hold one of the words; links are not followed."""
    argv = ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "\n".join(words), str(below)]
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.splitlines()


def test_a_rehearsal_succeeds_whatever_the_caller_s_configuration_says(kept: Kept) -> None:
    assert kept.code == 0, kept.output


def test_no_call_leaves_localhost(kept: Kept) -> None:
    assert kept.leaving == []


def test_the_caller_s_files_are_neither_read_nor_touched_and_nothing_is_written_beside_them(kept: Kept) -> None:
    assert sorted(kept.after) == sorted(kept.before)
    assert {name for name, seen in kept.after.items() if seen != kept.before[name]} == set()


def test_no_log_and_no_file_of_the_rehearsal_holds_a_secret_of_the_caller_s(kept: Kept) -> None:
    assert [secret for secret in SECRETS if secret in kept.output] == []
    assert any(file.endswith("/journal.jsonl") for file in files_with("111122223333", below=kept.checkout.runs))
    assert files_with(*SECRETS, below=kept.checkout.runs) == []


def test_a_kept_rehearsal_says_how_to_look_at_it_and_can_be_looked_at(kept: Kept, programs: Binaries) -> None:
    kubeconfig = re.search(r"KUBECONFIG=(\S+)", kept.output)
    endpoint = re.search(r"AWS_ENDPOINT_URL=(\S+)", kept.output)
    assert kubeconfig
    assert endpoint
    code, shown = kept.run(str(programs["kubectl"]), "--kubeconfig", kubeconfig[1], "get", "rayclusters", "-A")
    assert code == 0, shown
    assert re.search(r"rayml .* ready ", shown), shown


def test_rehearse_down_ends_every_process(kept: Kept) -> None:
    assert kept.checkout.processes()
    code, output = kept.run("make", "--assume-old=setup", "--no-print-directory", "rehearse-down")
    assert (code, output) == (0, "ended: account\n")
    assert eventually_none_below(kept.checkout.directory) == {}
    assert kept.run("make", "--assume-old=setup", "--no-print-directory", "rehearse-down") == (
        0,
        "nothing was running\n",
    )
