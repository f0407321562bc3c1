"""The template hash, which distinguishes outdated from current Ray pods."""

from dataclasses import replace
from typing import Any

import pytest

from config.labels import TEMPLATE_LABEL
from config.model import Autoscaling
from k8s_charts.ray.cluster import HeadPod, RayClusterSpec
from k8s_charts.ray.pods import Placement
from tests.charts.support.facts import Object
from tests.charts.support.ray_clusters import P5, SMALL, a_ray_cluster, a_worker_group, rendered

CLUSTER = a_ray_cluster(a_worker_group(), a_worker_group(name="other-group"))


def templates(cluster: RayClusterSpec) -> dict[str, str]:
    """Return the hash of each group's pods by group, and the RayCluster's hash by its name."""
    manifest: Object = rendered(cluster)
    spec = manifest["spec"]
    groups = {"head": spec["headGroupSpec"], **{group["groupName"]: group for group in spec["workerGroupSpecs"]}}
    hashes = {name: group["template"]["metadata"]["labels"][TEMPLATE_LABEL] for name, group in groups.items()}
    return {**hashes, cluster.name: manifest["metadata"]["annotations"][TEMPLATE_LABEL]}


def changed(cluster: RayClusterSpec) -> set[str]:
    before, after = templates(CLUSTER), templates(cluster)
    return {name for name, template in after.items() if template != before[name]}


def with_group(**changes: Any) -> RayClusterSpec:
    """Return CLUSTER with a changed first worker group."""
    return a_ray_cluster(a_worker_group(**changes), a_worker_group(name="other-group"))


@pytest.mark.parametrize("changes", [{"replicas": 7}, {"min_replicas": 2}, {"max_replicas": 40}])
def test_other_replicas_do_not_change_the_template(changes: dict[str, int]) -> None:
    assert changed(with_group(**changes)) == set()


def test_one_more_worker_group_leaves_the_others_as_they_are() -> None:
    more = a_ray_cluster(*CLUSTER.workers, a_worker_group(name="third-group"))
    assert {name for name, hash in templates(CLUSTER).items() if templates(more)[name] != hash} == {"rayml"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"resources": replace(P5, memory_mib=1024)}, id="container"),
        pytest.param({"resources": replace(P5, accelerators=4)}, id="start-parameters"),
        pytest.param({"prefer_deep_checked": True}, id="affinity"),
        pytest.param({"place": Placement("worker-group-2")}, id="place"),
    ],
)
def test_a_change_of_a_group_s_pods_changes_only_this_group_s_template(changes: dict[str, Any]) -> None:
    assert changed(with_group(**changes)) == {"gpu-group", "rayml"}


def test_a_change_that_all_pods_share_changes_every_template() -> None:
    other_image = replace(CLUSTER, pods=replace(CLUSTER.pods, image="registry/repository:other"))
    assert changed(other_image) == {"head", "gpu-group", "other-group", "rayml"}


def test_a_changed_head_changes_only_the_head_s_template() -> None:
    assert changed(replace(CLUSTER, head=HeadPod(Placement("other-group"), SMALL))) == {"head", "rayml"}


def test_the_autoscaler_is_a_container_of_the_head_and_so_part_of_its_template() -> None:
    scaled = [replace(CLUSTER, autoscaling=Autoscaling(idle_timeout_seconds=seconds)) for seconds in (60, 120)]
    assert changed(scaled[0]) == {"head", "rayml"}
    assert templates(scaled[0])["head"] != templates(scaled[1])["head"]


def test_the_same_environment_gives_the_same_templates() -> None:
    assert templates(CLUSTER) == templates(with_group())


def test_the_hash_is_a_value_that_a_label_takes() -> None:
    assert all(len(hash) <= 63 and hash.isalnum() for hash in templates(CLUSTER).values())
