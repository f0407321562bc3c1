"""The simulated service knows instance types from EC2's record, and what AWS documents of them."""

import pytest
from botocore.loaders import Loader

from embedded_account.hyperpod import instance_types
from embedded_account.kubernetes.allocatable import allocatable

pytestmark = pytest.mark.product

HYPERPOD_TYPES = Loader().load_service_model("sagemaker", "service-2")["shapes"]["ClusterInstanceType"]["enum"]


@pytest.mark.parametrize(
    ("name", "vcpus", "pods", "devices"),
    [
        ("ml.c6a.2xlarge", 8, 14, {}),
        ("ml.c8a.16xlarge", 64, 63, {}),
        ("ml.g4dn.12xlarge", 48, 29, {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 1}),
        ("ml.trn2.3xlarge", 12, 14, {"aws.amazon.com/neuron": 1, "vpc.amazonaws.com/efa": 1}),
    ],
)
def test_types_are_described_by_ec2(name: str, vcpus: int, pods: int, devices: dict[str, int]) -> None:
    kind = instance_types.find(name)
    assert kind
    assert (kind.vcpus, kind.pod_cap, kind.devices) == (vcpus, pods, devices)


def test_every_simulated_type_of_the_api_leaves_room_to_pods() -> None:
    found = [kind for kind in map(instance_types.find, HYPERPOD_TYPES) if kind]
    assert len(found) > 100
    for kind in found:
        for threads in kind.threads_per_core:
            room = allocatable(
                cpus=kind.vcpus_at(threads),
                memory_gib=kind.memory_gib,
                pods=kind.pod_cap,
                hugepages_mib=kind.hugepages_mib,
            )
            assert room.cpu_millis > 0, kind
            assert room.memory_mib > 0, kind


@pytest.mark.parametrize("name", ["ml.c8g.large", "ml.p6e-gb200.36xlarge", "ml.x9.huge", "m5.large"])
def test_arm_types_and_unknown_names_are_not_simulated(name: str) -> None:
    assert instance_types.find(name) is None
