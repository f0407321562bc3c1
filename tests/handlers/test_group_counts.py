"""The function GroupCounts: what it refuses, what it sends, and what it answers."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_account.hyperpod.bench import HyperPodBench
from embedded_account.hyperpod.model import SimulatedCluster
from handlers.group_counts import index
from handlers.hyperpod_cluster.record import SLEEPING_TAG, sleeping_tag

GPU, HEAD = "worker-group-1", "head-group"
IMAGE = "ami-0123456789abcdef0"
Ask = Callable[[Any], dict[str, Any]]


def tag_of(ranges: dict[str, list[int]]) -> list[dict[str, str]]:
    """Return the tag that the cluster's handler writes for a template with these ranges."""
    return [{"Key": key, "Value": value} for key, value in _tag(ranges).items()]


def _tag(ranges: dict[str, list[int]]) -> dict[str, str]:
    minima, counts = ({name: each[n] for name, each in ranges.items()} for n in (0, 1))
    return sleeping_tag(minima, counts, {SLEEPING_TAG: ""})


@pytest.fixture
def cluster(bench: HyperPodBench, sagemaker: Any) -> SimulatedCluster:
    """Return a cluster with four nodes in the group that sleeps, and every field of a group."""
    request = deepcopy(bench.request(Tags=tag_of({GPU: [0, 4]})))
    head, gpu = request["InstanceGroups"]
    head |= {"KubernetesConfig": {"Labels": {"team": "a"}}, "MinInstanceCount": 1}
    gpu |= {
        "InstanceCount": 4,
        "ThreadsPerCore": 2,
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}],
        "KubernetesConfig": {
            "Labels": {"team": "b"},
            "Taints": [{"Key": "gpu", "Value": "yes", "Effect": "NoSchedule"}],
        },
    }
    sagemaker.create_cluster(**request)
    bench.advance(120)
    bench.journal.clear()
    [found] = bench.hyperpod.world.clusters.values()
    return found


@pytest.fixture
def ask(cluster: SimulatedCluster, sagemaker: Any, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Invoke the function, as Lambda does with what the caller sends."""
    monkeypatch.setenv("CLUSTER_NAME", "ml-cluster")
    monkeypatch.setenv("RANGES", json.dumps({GPU: [0, 4]}))
    monkeypatch.setattr(index, "_client", lambda: sagemaker)

    def asked(event: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(json.dumps(index.handle(json.loads(json.dumps(event)), None)))
        return answer

    return asked


def answer(target: int, current: int, *, cluster: str = "InService", refused: str = "") -> dict[str, Any]:
    return {"cluster": cluster, "groups": {GPU: {"target": target, "current": current}}, "refused": refused}


@pytest.fixture
def updates(sagemaker: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield the list of the UpdateCluster requests that are sent."""
    sent: list[dict[str, Any]] = []
    sagemaker.meta.events.register(
        "provide-client-params.sagemaker.UpdateCluster", record := lambda params, **_: sent.append(params)
    )
    yield sent
    sagemaker.meta.events.unregister("provide-client-params.sagemaker.UpdateCluster", record)


@pytest.mark.parametrize("event", [{}, {"counts": {}}, {"counts": {GPU: 4}}], ids=str)
def test_event_that_asks_for_nothing_new_only_reads(ask: Ask, updates: list[Any], event: Any) -> None:
    assert ask(event) == answer(4, 4)
    assert updates == []


def test_group_sleeps_and_wakes(ask: Ask, bench: HyperPodBench, updates: list[Any]) -> None:
    assert ask({"counts": {GPU: 0}}) == answer(0, 4)
    bench.advance(60)
    assert ask({}) == answer(0, 0)
    assert ask({"counts": {GPU: 4}}) == answer(4, 0)
    assert ask({"counts": {GPU: 4}})["groups"][GPU]["target"] == 4
    bench.advance(120)
    assert ask({}) == answer(4, 4)
    assert len(updates) == 2


def test_all_groups_are_sent_in_full_and_nothing_but_the_count_changes(
    ask: Ask, cluster: SimulatedCluster, bench: HyperPodBench
) -> None:
    before = {name: dict(group.specification) for name, group in cluster.groups.items()}
    ask({"counts": {GPU: 1}})
    bench.advance(60)
    after = {name: dict(group.specification) for name, group in cluster.groups.items()}
    before[GPU] |= {"InstanceCount": 1, "MinInstanceCount": 0}
    assert after == before


def test_groups_of_the_cluster_are_others_business_and_a_group_that_goes_is_not_sent(
    ask: Ask, cluster: SimulatedCluster, sagemaker: Any, bench: HyperPodBench
) -> None:
    groups = [dict(group.specification) for group in cluster.groups.values()]
    groups[0]["InstanceCount"] = 2
    made = [bench.group(name, "ml.g5.2xlarge", 3) for name in ("by-hand", "gone")]
    sagemaker.update_cluster(ClusterName="ml-cluster", InstanceGroups=[*groups, *made])
    bench.advance(60)
    cluster.groups["gone"].mark_deleted()
    assert ask({"counts": {GPU: 0}}) == answer(0, 4)
    assert cluster.groups["gone"].deleting
    assert {name: group.target for name, group in cluster.groups.items() if not group.deleting} == {
        HEAD: 2,
        GPU: 0,
        "by-hand": 3,
    }


def test_custom_images_are_sent_for_each_group_that_has_one(
    ask: Ask, cluster: SimulatedCluster, bench: HyperPodBench, updates: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """UpdateCluster may reset an image that a group omits, and DescribeCluster does not say which one is custom."""
    monkeypatch.setenv("IMAGES", json.dumps({HEAD: IMAGE}))
    cluster.groups[HEAD].specification["ImageId"] = IMAGE
    assert ask({"counts": {GPU: 0}})["refused"] == ""
    [sent] = updates
    assert [(group["InstanceCount"], group.get("ImageId")) for group in sent["InstanceGroups"]] == [
        (1, IMAGE),
        (0, None),
    ]
    assert sent["InstanceGroups"][0]["MinInstanceCount"] == 1
    bench.advance(60)
    monkeypatch.setenv("IMAGES", json.dumps({GPU: IMAGE}))
    assert ask({"counts": {GPU: 4}})["refused"] == ""
    assert updates[1]["InstanceGroups"][1]["ImageId"] == IMAGE


WRONG: list[tuple[Any, str]] = [
    ({"counts": {HEAD: 0}}, f"instance group {HEAD} does not sleep. Allowed: {GPU}"),
    ({"counts": {GPU: 2, HEAD: 1}}, f"instance group {HEAD} does not sleep. Allowed: {GPU}"),
    ({"counts": {GPU: 5}}, f"count 5 of instance group {GPU} is invalid. Allowed: 0 to 4"),
    ({"counts": {GPU: -1}}, f"count -1 of instance group {GPU} is invalid. Allowed: 0 to 4"),
    ({"counts": {GPU: True}}, f"count True of instance group {GPU} is invalid. Allowed: 0 to 4"),
    ({"counts": {GPU: "2"}}, f"count 2 of instance group {GPU} is invalid. Allowed: 0 to 4"),
    ({"counts": {GPU: None}}, f"count None of instance group {GPU} is invalid. Allowed: 0 to 4"),
    ({"counts": [GPU]}, "is invalid. Allowed: counts, by instance group"),
    ({"count": {GPU: 2}}, "count is invalid. Allowed: counts, by instance group"),
    ({"counts": {}, "cluster": "another"}, "cluster is invalid. Allowed: counts, by instance group"),
    ([], "[] is invalid. Allowed: counts, by instance group"),
    (None, "None is invalid. Allowed: counts, by instance group"),
]


@pytest.mark.parametrize(("event", "told"), WRONG, ids=lambda value: json.dumps(value)[:50])
def test_request_for_another_group_or_a_count_outside_its_range_is_invalid(
    ask: Ask, updates: list[Any], event: Any, told: str
) -> None:
    with pytest.raises(index.InvalidRequestError) as raised:
        ask(event)
    assert str(raised.value).endswith(told)
    assert updates == []


@pytest.mark.parametrize("count", [1, 4])
def test_minimum_and_count_are_allowed(
    ask: Ask, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("RANGES", json.dumps({GPU: [1, 4]}))
    cluster.tag_values |= _tag({GPU: [1, 4]})
    assert ask({"counts": {GPU: count}})["groups"][GPU]["target"] == count
    with pytest.raises(index.InvalidRequestError, match="Allowed: 1 to 4"):
        ask({"counts": {GPU: 0}})


def test_cluster_that_is_being_changed_is_left_alone(ask: Ask, sagemaker: Any, updates: list[Any]) -> None:
    sagemaker.update_cluster_software(ClusterName="ml-cluster")
    refused = "the cluster is SystemUpdating"
    assert ask({"counts": {GPU: 0}}) == answer(4, 4, cluster="SystemUpdating", refused=refused)
    assert ask({}) == answer(4, 4, cluster="SystemUpdating")
    assert updates == []


def test_deep_health_checks_anywhere_in_the_cluster_are_waited_for(
    ask: Ask, cluster: SimulatedCluster, sagemaker: Any, bench: HyperPodBench, updates: list[Any]
) -> None:
    checked = bench.group("checked", "ml.g5.2xlarge", 2, OnStartDeepHealthChecks=["InstanceStress"])
    groups = [dict(group.specification) for group in cluster.groups.values()]
    sagemaker.update_cluster(ClusterName="ml-cluster", InstanceGroups=[*groups, checked])
    updates.clear()
    bench.advance(20)
    assert ask({"counts": {GPU: 0}}) == answer(4, 4, refused="2 of its nodes are in deep health checks (checked)")
    assert updates == []
    bench.advance(240)
    assert ask({"counts": {GPU: 0}}) == answer(0, 4)


def test_group_that_the_cluster_lacks_is_told_and_left_out(
    ask: Ask, updates: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hyperpod stack creates it later, or removes it now."""
    monkeypatch.setenv("RANGES", json.dumps({GPU: [0, 4], "new": [0, 2]}))
    assert ask({"counts": {GPU: 0, "new": 2}}) == answer(4, 4, refused="the cluster has no instance group new")
    assert updates == []


@pytest.mark.parametrize(
    "ranges",
    [{}, {GPU: [0, 6]}, {GPU: [1, 4]}, {GPU: [0, 4], HEAD: [0, 1]}, {HEAD: [0, 1]}],
    ids=["none sleeps any more", "other count", "other minimum", "another sleeps, too", "another sleeps instead"],
)
def test_function_that_is_older_or_newer_than_the_clusters_template_changes_nothing(
    ask: Ask, cluster: SimulatedCluster, updates: list[Any], ranges: dict[str, list[int]]
) -> None:
    """CloudFormation updates the two one after the other, and deletes the function last."""
    cluster.tag_values |= _tag(ranges)
    assert ask({"counts": {GPU: 0}}) == answer(4, 4, refused="a deployment changes which groups sleep")
    assert ask({}) == answer(4, 4)
    del cluster.tag_values[SLEEPING_TAG]
    assert ask({"counts": {GPU: 0}})["refused"] == "a deployment changes which groups sleep"
    assert updates == []


def test_both_know_the_tag_by_the_same_name() -> None:
    assert index.SLEEPING_TAG == SLEEPING_TAG


@pytest.mark.parametrize("code", ["ConflictException", "ResourceLimitExceeded"])
def test_error_that_passes_is_told_with_the_counts_as_they_are(
    ask: Ask, sagemaker: Any, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def fail(**_: Any) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "Another update runs."}}, "UpdateCluster")

    monkeypatch.setattr(sagemaker, "update_cluster", fail)
    assert ask({"counts": {GPU: 0}}) == answer(4, 4, refused="it takes no update now: Another update runs.")


@pytest.mark.parametrize("call", ["DescribeCluster", "ListTags", "ListClusterNodes", "UpdateCluster"])
def test_missing_right_fails_with_its_name(ask: Ask, bench: HyperPodBench, call: str) -> None:
    bench.fault(errors={call: "AccessDeniedException"})
    with pytest.raises(ClientError, match=f"AccessDeniedException.*{call}"):
        ask({"counts": {GPU: 0}})


def test_the_functions_client_has_the_packed_model_and_retries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    index._client.cache_clear()
    client: Any = index._client()
    index._client.cache_clear()
    assert client.meta.config.retries == {"mode": "standard", "total_max_attempts": 2}
