"""What a pod can have of a node."""

from config import load
from config.capacity import allocatable, whole_node_pod
from config.catalogue import catalogue


def test_one_thread_per_core_halves_the_cpus_and_leaves_what_was_seen_on_aws() -> None:
    """1,930 m on an ml.m5.xlarge with one thread per core was reported from a live cluster."""
    assert allocatable(catalogue()["ml.m5.xlarge"], 1).cpu_millis == 1930


def test_two_threads_per_core_offer_all_vcpus() -> None:
    one, two = (allocatable(catalogue()["ml.p5.48xlarge"], threads).cpu_millis for threads in (1, 2))
    assert 95_000 < one < 96_000
    assert 191_000 < two < 192_000


def test_a_whole_node_pod_leaves_room_for_daemonsets() -> None:
    for kind in catalogue().values():
        for threads in kind.threads_per_core:
            node, pod = allocatable(kind, threads), whole_node_pod(kind, threads)
            assert pod.cpu_millis <= node.cpu_millis - 600
            assert pod.memory_mib <= node.memory_mib - 2048
            assert (pod.gpus, pod.efa) == (kind.gpus, kind.efa)


def test_the_head_of_every_environment_fits_its_group() -> None:
    for name in ("dev", "prod", "small"):
        environment = load(name)
        for cluster in environment.ray.clusters:
            group = environment.instance_group(cluster.head.instance_group)
            pod = whole_node_pod(group.type, group.threads_per_core)
            assert cluster.head.cpu * 1000 <= pod.cpu_millis
            assert cluster.head.memory_gib * 1024 <= pod.memory_mib
