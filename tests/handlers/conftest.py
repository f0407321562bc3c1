"""The simulator, CloudFormation in front of the handlers, and properties as the stack writes them."""

from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.account.hyperpod.bench import HyperPodBench
from tests.handlers.framework import CloudFormation, Properties


@pytest.fixture
def bench() -> Iterator[HyperPodBench]:
    with HyperPodBench() as bench:
        yield bench


@pytest.fixture
def cloudformation(bench: HyperPodBench, monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    return CloudFormation(bench, monkeypatch)


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
