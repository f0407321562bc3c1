"""The project's figures of HyperPod's nodes against the simulated service's own: a slip in one shows."""

import re

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from config.facts import capacity, versions
from config.facts.instance_types import InstanceType, catalogue
from embedded_account.hyperpod import instance_types, rules
from embedded_account.kubernetes.allocatable import allocatable

pytestmark = pytest.mark.table("config/facts/instance_types.yaml")
FIGURES = (
    "vcpus",
    "memory_gib",
    "threads_per_core",
    "pod_cap",
    "ips_per_node",
    "accelerators",
    "accelerator_resource",
    "efa",
    "hugepages_mib",
    "accelerated",
)
EVERY_TYPE = pytest.mark.parametrize("ours", catalogue().values(), ids=lambda kind: kind.name)


@EVERY_TYPE
def test_both_have_the_same_figures_of_a_type(ours: InstanceType) -> None:
    theirs = instance_types.find(ours.name)
    assert theirs
    assert {name: getattr(ours, name) for name in FIGURES} == {name: getattr(theirs, name) for name in FIGURES}


@EVERY_TYPE
def test_a_node_of_the_service_offers_what_the_project_counts_with(ours: InstanceType) -> None:
    theirs = instance_types.find(ours.name)
    assert theirs
    for threads in ours.threads_per_core:
        counted = capacity.allocatable(ours, threads)
        offered = allocatable(
            cpus=theirs.vcpus_at(threads),
            memory_gib=theirs.memory_gib,
            pods=theirs.pod_cap,
            hugepages_mib=theirs.hugepages_mib,
        )
        assert (counted.cpu_millis, counted.memory_mib) == (offered.cpu_millis, offered.memory_mib)
        assert counted.devices == theirs.devices


@pytest.mark.table("config/facts/versions.py")
def test_both_know_the_same_kubernetes_versions() -> None:
    assert versions.KUBERNETES_VERSIONS == rules.KUBERNETES_VERSIONS


@EVERY_TYPE
def test_bandwidth_of_a_type_is_what_ec2_describes(ours: InstanceType) -> None:
    described = INSTANCE_TYPES[ours.name.removeprefix("ml.")]["NetworkInfo"]
    whole = re.fullmatch(r"(?:(\d+)x )?([\d.]+) Gigabit", described["NetworkPerformance"])
    # "Up to 10 Gigabit" holds for a while only.
    lasting = (
        float(whole[1] or 1) * float(whole[2]) if whole else described["NetworkCards"][0]["BaselineBandwidthInGbps"]
    )
    assert ours.network_gbps == lasting
