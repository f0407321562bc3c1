"""The simulator, CloudFormation in front of the handlers, and properties as the stack writes them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.changing import edited
from tests.handlers.engine import Deployments
from tests.handlers.framework import CloudFormation, Properties
from tests.handlers.judging import Deeds, Judge


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench() as bench:
        yield bench


@pytest.fixture
def cloudformation(bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    return CloudFormation(bench, monkeypatch)


@pytest.fixture
def deeds() -> Deeds:
    """What the judge of `stacks` is to know."""
    return Deeds(errors={("*", "*")}, killed=True)


@pytest.fixture
def stacks(bench: HyperPodBench, deeds: Deeds, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployments]:
    """The engine in front of the handlers; every answer is judged."""
    deployments = Deployments(bench, monkeypatch)
    deployments.judge = Judge(bench, deeds, lambda: deployments.status, deployments.framework.carried_out)
    yield deployments
    deployments.close()


@pytest.fixture
def running(stacks: Deployments, bench: HyperPodBench) -> Deployments:
    """A deployed stack all of whose nodes run."""
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
    """The operator's client, to look behind the handlers."""
    return bench.client("sagemaker")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much was explored: figures that tests of sequences record, also those of xdist's workers."""
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
