"""Types that the catalogue has no row for are known to the simulated service from EC2's record."""

import pytest

from config.facts.capacity import allocatable
from config.facts.instance_types import catalogue
from embedded_account.hyperpod import instance_types

pytestmark = pytest.mark.product


def test_types_of_the_catalogue_are_the_catalogue_s() -> None:
    assert instance_types.find("ml.p5.48xlarge") is catalogue()["ml.p5.48xlarge"]


@pytest.mark.parametrize(
    ("name", "vcpus", "pods", "devices"),
    [
        ("ml.c6a.2xlarge", 8, 14, {}),
        ("ml.c8a.16xlarge", 64, 63, {}),
        ("ml.g4dn.12xlarge", 48, 29, {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 1}),
        ("ml.trn2.3xlarge", 12, 14, {"aws.amazon.com/neuron": 1, "vpc.amazonaws.com/efa": 1}),
    ],
)
def test_others_are_described_by_ec2(name: str, vcpus: int, pods: int, devices: dict[str, int]) -> None:
    kind = instance_types.find(name)
    assert kind
    assert (kind.vcpus, kind.pod_cap) == (vcpus, pods)
    assert allocatable(kind, max(kind.threads_per_core)).devices == devices


@pytest.mark.parametrize("name", ["ml.c8g.large", "ml.p6e-gb200.36xlarge", "ml.x9.huge", "m5.large"])
def test_arm_types_and_unknown_names_are_not_simulated(name: str) -> None:
    assert instance_types.find(name) is None
