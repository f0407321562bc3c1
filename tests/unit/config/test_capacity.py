"""The capacity of a node that pods can request."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import load
from config.facts import container_insights, in_cluster
from config.facts.capacity import EVICTION_MIB, NodeResources, NodeTooSmallError, allocatable, whole_node_pod
from config.facts.daemonsets import DAEMONSETS, FLOATING_PODS, NodeLoad, daemonsets_on, system_pods
from config.facts.instance_types import GPU_RESOURCE, InstanceType, catalogue

AGENTS = NodeLoad(container_insights.DAEMONSETS, floating_pods=1)
EXPORTERS = NodeLoad(in_cluster.DAEMONSETS)
TYPES = [(kind, threads) for kind in catalogue().values() for threads in kind.threads_per_core]


@st.composite
def instance_types(draw: st.DrawFn) -> InstanceType:
    """Generate any instance type that an environment may describe, sensible or not."""
    memory_gib = draw(st.integers(1, 8192))
    accelerators = draw(st.integers(0, 16))
    return InstanceType(
        name="ml.some.type",
        vcpus=draw(st.integers(1, 512)),
        memory_gib=memory_gib,
        threads_per_core=draw(st.sampled_from([(1,), (1, 2)])),
        pod_cap=draw(st.integers(1, 250)),
        ips_per_node=draw(st.integers(1, 250)),
        accelerators=accelerators,
        accelerator_resource=draw(st.sampled_from([GPU_RESOURCE, "aws.amazon.com/neuron"])) if accelerators else None,
        efa=draw(st.integers(0, 32)),
        hugepages_mib=draw(st.integers(0, memory_gib * 1024 - 1)),
    )


def fits(kind: InstanceType, threads: int) -> None:
    """Assert that the pod fits its node, as it must on every type with enough room."""
    node, pod = allocatable(kind, threads), whole_node_pod(kind, threads)
    daemonsets = daemonsets_on(kind)
    assert 0 < node.cpu_millis <= kind.vcpus_at(threads) * 1000 <= kind.vcpus * 1000
    assert 0 < node.memory_mib <= kind.memory_gib * 1024 - kind.hugepages_mib
    assert 1000 <= pod.cpu_millis <= node.cpu_millis - sum(each.cpu_millis for each in daemonsets)
    assert 1024 <= pod.memory_mib <= node.memory_mib - sum(each.memory_mib for each in daemonsets)
    assert pod.cpu_millis % 1000 == pod.memory_mib % 1024 == 0
    assert pod.devices == node.devices
    assert (pod.accelerators, pod.efa) == (kind.accelerators, kind.efa)


def test_one_thread_per_core_halves_the_cpus_and_leaves_what_a_live_node_showed() -> None:
    """A live cluster reported 1,930 m on an ml.m5.xlarge with one thread per core."""
    assert allocatable(catalogue()["ml.m5.xlarge"], 1).cpu_millis == 1930


def test_two_threads_per_core_offer_all_vcpus() -> None:
    """EKS nodes with 96 CPUs show 95,690 m."""
    one, two = (allocatable(catalogue()["ml.p5.48xlarge"], threads).cpu_millis for threads in (1, 2))
    assert one == 95_690
    assert 191_000 < two < 192_000


def test_promised_memory_never_exceeds_what_nodes_showed() -> None:
    """EKS showed 1,146,004,920 KiB on a p4de whose kubelet had reserved memory for 737 pods, not for HyperPod's 49."""
    kind = catalogue()["ml.p4de.24xlarge"]
    seen = 1_146_004_920 // 1024 + 11 * (737 - kind.pod_cap)
    assert 0.95 * seen < allocatable(kind, 2).memory_mib < seen


@pytest.mark.parametrize(("kind", "threads"), TYPES, ids=lambda value: getattr(value, "name", str(value)))
def test_every_type_of_the_catalogue_but_single_cores_has_room_for_a_ray_worker(
    kind: InstanceType, threads: int
) -> None:
    if kind.vcpus_at(threads) == 1:
        with pytest.raises(NodeTooSmallError):
            whole_node_pod(kind, threads)
    else:
        fits(kind, threads)


@given(instance_types())
def test_any_type_gives_a_pod_that_fits_or_is_too_small(kind: InstanceType) -> None:
    for threads in kind.threads_per_core:
        with contextlib.suppress(NodeTooSmallError):
            fits(kind, threads)


def test_a_type_too_small_for_a_worker_says_what_it_has() -> None:
    with pytest.raises(NodeTooSmallError, match=r"ml\.t3\.medium with threads_per_core 1 has 940m CPU and 3481 MiB"):
        whole_node_pod(catalogue()["ml.t3.medium"], 1)


def test_hugepages_that_take_all_memory_are_refused_not_offered_as_a_negative_amount() -> None:
    kind = catalogue()["ml.g5.8xlarge"]
    greedy = kind.model_copy(update={"hugepages_mib": kind.memory_gib * 1024 - EVICTION_MIB})
    with pytest.raises(NodeTooSmallError, match=r"ml\.g5\.8xlarge: .*hugepages leave no memory"):
        allocatable(greedy, 1)


def test_a_trainium_node_offers_neuron_devices_and_no_gpus() -> None:
    pod = whole_node_pod(catalogue()["ml.trn1.32xlarge"], 2)
    assert pod.devices == {"aws.amazon.com/neuron": 16, "vpc.amazonaws.com/efa": 8}
    assert pod.gpus == 0


def test_resources_without_devices_name_none() -> None:
    assert NodeResources(1000, 1024).devices == {}


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("ml.m5.2xlarge", set()),
        ("ml.g5.4xlarge", {"health-monitoring-agent", "nvidia-device-plugin"}),
        ("ml.p5.48xlarge", {"health-monitoring-agent", "nvidia-device-plugin", "aws-efa-k8s-device-plugin"}),
        (
            "ml.trn1.32xlarge",
            {"health-monitoring-agent-non-nvidia", "neuron-device-plugin", "aws-efa-k8s-device-plugin"},
        ),
    ],
)
def test_only_the_daemonsets_of_its_hardware_run_on_a_node(name: str, extra: set[str]) -> None:
    everywhere = {"aws-node", "kube-proxy", "eks-pod-identity-agent", "fsx-csi-node"}
    kind = catalogue()[name]
    assert {each.name for each in daemonsets_on(kind)} == everywhere | extra
    floating = sum(each.pods for each in FLOATING_PODS)
    assert system_pods(kind) == len(everywhere | extra) + floating


@pytest.mark.parametrize(
    ("name", "agents"),
    [
        ("ml.m5.4xlarge", {"cloudwatch-agent", "fluent-bit"}),
        ("ml.p5.48xlarge", {"cloudwatch-agent", "fluent-bit", "dcgm-exporter"}),
        ("ml.trn1.32xlarge", {"cloudwatch-agent", "fluent-bit", "neuron-monitor"}),
    ],
)
def test_a_worker_leaves_room_for_the_agents_of_container_insights(name: str, agents: set[str]) -> None:
    """They have the highest priority, and would evict it."""
    kind = catalogue()[name]
    without, others = daemonsets_on(kind), daemonsets_on(kind, AGENTS)
    assert {each.name for each in others if each not in without} == agents
    assert system_pods(kind, AGENTS) == system_pods(kind) + len(agents) + 1
    pod = whole_node_pod(kind, max(kind.threads_per_core), AGENTS)
    node = allocatable(kind, max(kind.threads_per_core))
    assert pod.cpu_millis + sum(each.cpu_millis for each in others) <= node.cpu_millis
    assert pod.memory_mib + sum(each.memory_mib for each in others) <= node.memory_mib


@pytest.mark.parametrize(
    ("name", "exporters"),
    [
        ("ml.p5.48xlarge", ["dcgm-exporter", "efa-exporter"]),
        ("ml.g5.4xlarge", ["dcgm-exporter"]),
        ("ml.trn1.32xlarge", ["efa-exporter"]),
    ],
)
def test_a_worker_leaves_room_for_exporters_that_run_only_where_gpus_and_efa_are(
    name: str, exporters: list[str]
) -> None:
    kind, cpu = catalogue()[name], catalogue()["ml.m5.4xlarge"]
    without, others = daemonsets_on(kind), daemonsets_on(kind, EXPORTERS)
    assert [each.name for each in others if each not in without] == exporters
    assert system_pods(kind, EXPORTERS) == system_pods(kind) + len(exporters)
    assert daemonsets_on(cpu, EXPORTERS) == daemonsets_on(cpu)
    pod = whole_node_pod(kind, max(kind.threads_per_core), EXPORTERS)
    node = allocatable(kind, max(kind.threads_per_core))
    assert pod.cpu_millis + sum(each.cpu_millis for each in others) <= node.cpu_millis
    assert pod.memory_mib + sum(each.memory_mib for each in others) <= node.memory_mib


@pytest.mark.table("config/facts/daemonsets.py")
def test_every_daemonset_says_where_its_requests_come_from() -> None:
    assert all(each.source for each in (*DAEMONSETS, *in_cluster.DAEMONSETS, *FLOATING_PODS))


def test_the_head_of_every_environment_fits_its_group() -> None:
    for name in ("dev", "prod", "small"):
        environment = load(name)
        for cluster in environment.ray.clusters:
            group = environment.instance_group(cluster.head.instance_group)
            pod = whole_node_pod(group.type, group.threads_per_core)
            assert cluster.head.cpu * 1000 <= pod.cpu_millis
            assert cluster.head.memory_gib * 1024 <= pod.memory_mib
