"""A kept rehearsal stays when its process has ended, can be looked at, and ends when it is told."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.machine.processes import living
from rehearsal.paths import REPOSITORY
from tests.rehearsal.run import cluster_app, kept_rehearsal
from tests.rehearsal.run.checkout import Checkout, eventually_none_below

# Without the set-up: the clone has its packages.
MAKE = ("make", "--assume-old=setup-rehearsal", "--no-print-directory")


@dataclass
class Kept:
    """A rehearsal that runs in a clone, and what the program said that started it."""

    checkout: Checkout
    output: str


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


def pasted(kept: Kept, line: str) -> str:
    """What a shell shows of a line, after the one that a kept rehearsal prints to be pasted first."""
    (source,) = re.findall(r"^    (source \S+)$", kept.output, re.MULTILINE)
    code, shown = kept.checkout.run("bash", "-c", f"set -e\n{source}\n{line}")
    assert code == 0, shown
    return shown


def printed_command(kept: Kept, program: str) -> str:
    """A command that a kept rehearsal prints."""
    (command,) = re.findall(rf"^    ({program} .+)$", kept.output, re.MULTILINE)
    return str(command)


def test_pasted_into_a_shell_ops_finds_the_account_and_the_cluster(kept: Kept) -> None:
    """Only a cluster was deployed: it is asked, in the account that the shell's variables name, for the rest."""
    shown = pasted(kept, f"{printed_command(kept, 'ops')} || true")
    assert "rayml" in shown


def test_pasted_into_a_shell_kubectl_opens_the_cluster(kept: Kept) -> None:
    assert "forbidden" not in pasted(kept, printed_command(kept, "kubectl"))
    assert re.search(r"^kube-system +Active", pasted(kept, "kubectl get namespaces"), re.MULTILINE)


def test_pasted_into_a_shell_aws_s_library_finds_the_account_and_the_region(kept: Kept) -> None:
    """The CLI is that library; what it needs of a shell are these variables."""
    assert printed_command(kept, "aws").startswith("aws sagemaker describe-cluster --cluster-name ")
    ask = "import boto3; print(*boto3.client('eks').list_clusters()['clusters'])"
    assert pasted(kept, f"{sys.executable} -c {shlex.quote(ask)}") == "rayhp-small\n"


def test_the_timeline_of_a_kept_rehearsal_is_drawn(kept: Kept) -> None:
    (page,) = re.findall(r"drawn in (\S+)", kept.output)
    assert cluster_app.STACK in Path(page).read_text()


def test_each_process_of_a_kept_rehearsal_is_one_that_rehearse_down_finds(kept: Kept) -> None:
    found = living(kept.checkout.runs / "runs" / cluster_app.ENVIRONMENT)
    assert found
    assert {pid: command for pid, command in kept.checkout.processes().items() if pid not in found} == {}


def test_make_clean_leaves_a_kept_rehearsal_alone(kept: Kept) -> None:
    directory = kept.checkout.runs / "runs" / cluster_app.ENVIRONMENT
    code, said = kept.checkout.run("make", "--no-print-directory", "clean")
    assert code == 0
    assert f"{directory} stays: a rehearsal runs there" in said
    assert (directory / "account" / "journal.jsonl").is_file()


def test_rehearse_down_ends_every_process(kept: Kept) -> None:
    assert kept.checkout.processes()
    assert kept.checkout.run(*MAKE, "rehearse-down") == (0, "ended: account\n")
    assert eventually_none_below(kept.checkout.directory) == {}
    assert not list(kept.checkout.runs.glob("runs/*/look.sh")), "no command points to it any more"
    assert kept.checkout.run(*MAKE, "rehearse-down") == (0, "nothing was running\n")
