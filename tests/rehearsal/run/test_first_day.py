"""The pages of the first day, typed at a terminal as written, in a new environment's kept rehearsal."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest

from config.labels import INSTANCE_GROUP_LABEL
from embedded_account.kubernetes.building.binaries import Binaries
from tests.rehearsal.run.checkout import Checkout, assert_one_clear_message
from tests.rehearsal.run.first_day import BOOTSTRAP, DEPLOY, DIFF, FIRST_DAY, NODE, Line
from tests.rehearsal.run.terminal import at_a_terminal
from tests.rehearsal.run.test_new import ANSWERS
from tests.support.waiting import KUBECTL_PATIENCE

pytestmark = [pytest.mark.readme, pytest.mark.product]

ENVIRONMENT: Final = "trial"
PODS: Final = 3
"""Head and workers of the RayCluster in what `ops new` writes."""
# What the reader's shell remembers: the environment of Python, and the lines that a kept rehearsal prints. Without the
# set-up: the clone has its packages.
SHELL: Final = f"""
make() {{ command make --assume-old=setup-rehearsal --no-print-directory "$@"; }}
set -o pipefail
export ENV={ENVIRONMENT}
PATH=~/bin:$PATH
. .venv/bin/activate
[ ! -e .rehearsal/runs/{ENVIRONMENT}/look.sh ] || . .rehearsal/runs/{ENVIRONMENT}/look.sh
"""
SILENCE_SECONDS: Final = 10
"""Longest time without output, on a machine that nobody else uses."""
SILENT: Final = {BOOTSTRAP, DIFF, DEPLOY}
"""Commands that may be silent for longer: the CDK CLI shows nothing while the app synthesises."""


@dataclass
class Reader:
    """Somebody with a clone and nothing else, who types what the pages say."""

    checkout: Checkout
    silences: dict[str, float] = field(default_factory=dict)
    """Longest silence of each command, as a multiple of what is allowed."""

    def types(self, line: Line) -> None:
        """Type a command, with the names of the reader's environment and of one of its nodes."""
        before = f"{{ {self._own(line.before)}; }} > /dev/null && " if line.before else ""
        started = os.getloadavg()[0]
        done = at_a_terminal(
            f"{SHELL}{before}{self._own(line.command)}{' | cat' if line.piped else ''}",
            cwd=self.checkout.directory,
            env=self.checkout.environment(),
            answers=ANSWERS,
            until=line.until,
        )
        # On a busy machine everything takes longer.
        busy = max(1.0, started / (os.cpu_count() or 1), os.getloadavg()[0] / (os.cpu_count() or 1))
        self.silences[line.command] = max(self.silences.get(line.command, 0), done.silence / busy / SILENCE_SECONDS)
        if done.code != line.code:
            pytest.fail(f"exit code {done.code}, not {line.code}:\n$ {line.command}\n{done.shown}", pytrace=False)
        for promise in map(self._own, line.promises):
            if not re.search(promise, done.shown, re.MULTILINE):
                pytest.fail(f"{promise!r} is not shown:\n$ {line.command}\n{done.shown}", pytrace=False)
        if line.replaced:
            self._wait_for_another_than(done.shown)
        if line.code:
            assert_one_clear_message(done.shown)

    def _wait_for_another_than(self, shown: str) -> None:
        """Wait until the RayCluster has as many pods as before, without the lost one that a command has named."""
        [gone] = set(re.findall(r"rayml-[\w-]+", shown))
        running = "kubectl get pods -n ray -l ray.io/cluster=rayml --field-selector=status.phase=Running -o name"
        done = at_a_terminal(
            f"{SHELL} kubectl wait -n ray pod/{gone} --for=delete {KUBECTL_PATIENCE} && "
            f'until [ "$({running} | wc -l)" = {PODS} ]; do sleep 1; done',
            cwd=self.checkout.directory,
            env=self.checkout.environment(),
        )
        assert done.code == 0, done.shown

    def _own(self, text: str) -> str:
        text = re.sub(r"\bdev\b", ENVIRONMENT, text)
        return text.replace(NODE, self._worker()) if NODE in text else text

    def _worker(self) -> str:
        """Return a node with a worker, as `ops node list` names it."""
        nodes = f"kubectl get nodes -l {INSTANCE_GROUP_LABEL}=worker-group-1 --no-headers"
        listed = at_a_terminal(f"{SHELL}{nodes}", cwd=self.checkout.directory, env=self.checkout.environment())
        found = re.search(r"^hyperpod-(i-\w+) +Ready", listed.shown, re.MULTILINE)
        assert found, listed.shown
        return found[1]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, programs: Binaries) -> Iterator[Reader]:
    """One reader for the whole file: the tests are the pages, in order."""
    assert programs
    checkout = Checkout(tmp_path_factory.mktemp("first-day") / "checkout")
    # What `ops new` writes is the only environment.
    for file in (checkout.directory / "environments").glob("*.yaml"):
        file.unlink()
    try:
        yield Reader(checkout)
    finally:
        checkout.run("make", "--assume-old=setup-rehearsal", "--no-print-directory", "rehearse-down")


@pytest.mark.parametrize("page", FIRST_DAY)
def test_a_page_is_typed_as_written(reader: Reader, page: str) -> None:
    for line in FIRST_DAY[page]:
        reader.types(line)


def test_no_command_is_silent_for_long(reader: Reader) -> None:
    silent = {command: times for command, times in reader.silences.items() if times > 1}
    assert silent.keys() <= SILENT, silent
