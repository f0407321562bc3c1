"""Fixtures: the simulator, CloudFormation in front of the handlers, and properties as the stack writes them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support.cloudformation import CloudFormation
from tests.handlers.support.edits import edited
from tests.handlers.support.engine import Deployments
from tests.handlers.support.framework import Properties
from tests.handlers.support.judging import Deeds, Judge


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench() as bench:
        yield bench


@pytest.fixture
def cloudformation(bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    return CloudFormation(bench, monkeypatch)


@pytest.fixture
def deeds() -> Deeds:
    """Return what the judge of `stacks` knows of injected errors."""
    return Deeds(errors={("*", "*")}, killed=True)


@pytest.fixture
def stacks(bench: HyperPodBench, deeds: Deeds, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployments]:
    """Yield the engine in front of the handlers; a judge checks every answer."""
    deployments = Deployments(bench, monkeypatch)
    deployments.judge = Judge(bench, deeds, lambda: deployments.status, deployments.framework.carried_out)
    yield deployments
    deployments.close()


@pytest.fixture
def running(stacks: Deployments, bench: HyperPodBench) -> Deployments:
    """Return a deployed stack whose nodes all run."""
    assert stacks.deploy(edited(bench, ())) == "CREATE_COMPLETE"
    bench.advance(60)
    stacks.framework.calls.clear()
    return stacks


@pytest.fixture
def properties(bench: HyperPodBench) -> Properties:
    request: Properties = bench.request(Tags=[{"Key": "project", "Value": "rayhp"}])
    for group in request["InstanceGroups"]:
        group["InstanceStorageConfigs"] = [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}]
    return request


@pytest.fixture
def sagemaker(bench: HyperPodBench) -> Any:
    """Return a client with an operator's rights, for changes outside of the handlers."""
    return bench.client("sagemaker")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how much was explored: the figures that tests of sequences record, those of xdist's workers included."""
    explored: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "call":
                continue
            explored.update(dict(getattr(report, "user_properties", ())).get("explored", {}))
    if explored:
        terminalreporter.section("explored")
        for what, count in sorted(explored.items()):
            terminalreporter.write_line(f"{count:7} {what}")
