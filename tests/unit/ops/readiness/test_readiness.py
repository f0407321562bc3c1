"""The items of `ops wait` and `ops status`: the state and the reason of each."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import config
from config.model import Autoscaling
from config.model.hyperpod import Sleep
from config.naming import STAND_IN_IMAGE
from ops.clients import Clients
from ops.readiness.item import ReadinessItem, ReadinessState, Require
from ops.readiness.observe import observe
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import (
    BUILD_LOG,
    BUILD_PODS,
    CLAIM,
    DIRECTORY_JOBS,
    DIRECTORY_PODS,
    EVENTS,
    HEAD,
    JOBS,
    NODES,
    PODS,
    RAY_CLUSTER,
    REAPER,
    REAPER_PODS,
    WORKERS,
    condition,
    deployment,
    event,
    failure,
    group,
    job,
    node,
    nodes,
    usable_node,
)

DEV = config.load("dev")
SLEEPER = REAPER.replace("ray-reaper", "sleeper")
Look = Callable[..., dict[tuple[str, str], ReadinessItem]]


@pytest.fixture
def look(apis: Apis, clients: Clients) -> Look:
    """Observe `dev`, by default all of it, and return the items by kind and name."""
    return lambda *required: {(item.kind, item.name): item for item in observe(DEV, clients, *required)}


def workers(apis: Apis, *listed: dict[str, Any], current: int, target: int = 4) -> None:
    """Serve these nodes in the worker group."""
    apis.aws["DescribeCluster"]["InstanceGroups"] = [group(HEAD, 1), group(WORKERS, current, target)]
    apis.aws["ListClusterNodes"]["ClusterNodeSummaries"] = [node(HEAD), *listed]


def head_pod() -> dict[str, Any]:
    """Return a running head."""
    return {
        "metadata": {"name": "rayml-head", "labels": {"ray.io/node-type": "head"}},
        "status": {"conditions": [condition("Ready")]},
    }


def kubernetes_event(second: str, message: str) -> dict[str, Any]:
    """Return a Kubernetes event of a claim."""
    reference = {"kind": "PersistentVolumeClaim"}
    time = f"2026-11-01T10:00:0{second}Z"
    return {"metadata": {"name": second}, "involvedObject": reference, "lastTimestamp": time, "message": message}


def claim_unbound(name: str) -> dict[str, Any]:
    """Return a pod whose claim has no volume yet."""
    message = "pod has unbound immediate PersistentVolumeClaims. preemption: not helpful"
    status = {"phase": "Pending", "conditions": [condition("PodScheduled", "False", message)]}
    return {"metadata": {"name": name}, "status": status}


def test_everything_of_a_running_environment_is_ready(look: Look) -> None:
    items = look()
    assert {item.state for item in items.values()} == {ReadinessState.READY}
    assert [(kind, name, item.detail) for (kind, name), item in items.items()] == [
        ("HyperPod cluster", "ml-cluster", "InService"),
        ("instance group", HEAD, "1 of 1 nodes: 1 Running"),
        ("instance group", WORKERS, "4 of 4 nodes: 4 Running"),
        ("Kubernetes nodes", HEAD, "1 of 1 Ready and Schedulable"),
        ("Kubernetes nodes", WORKERS, "4 of 4 Ready and Schedulable"),
        ("Ray image", "aws-ray-custom", "built: tag"),
        ("volume claim", "ray/fsx-claim", "Bound"),
        ("directory", "/fsx/ray", "belongs to Ray's user"),
        ("reaper", "kuberay/ray-reaper", "2 of 2 replicas"),
        ("RayCluster", "ray/rayml", "ready, 4 of 4 workers"),
    ]


def test_every_request_to_kubernetes_carries_a_fresh_eks_token(look: Look, apis: Apis) -> None:
    look()
    assert len(apis.tokens) == 8
    assert all(token.startswith("Bearer k8s-aws-v1.") for token in apis.tokens)


def test_a_cluster_that_does_not_exist_is_waited_for(look: Look, apis: Apis) -> None:
    apis.aws["DescribeCluster"] = aws_error("ResourceNotFound", "Cluster with name ml-cluster not found")
    items = look()
    assert items["HyperPod cluster", "ml-cluster"].state is ReadinessState.WAITING
    assert items["HyperPod cluster", "ml-cluster"].detail == "does not exist: deploy the hyperpod stack"
    assert ("instance group", WORKERS) not in items


@pytest.mark.parametrize("status", ["Creating", "Updating", "RollingBack", "SystemUpdating", "Deleting"])
def test_a_cluster_in_transition_is_waited_for(look: Look, apis: Apis, status: str) -> None:
    apis.aws["DescribeCluster"]["ClusterStatus"] = status
    item = look()["HyperPod cluster", "ml-cluster"]
    assert (item.state, item.detail) == (ReadinessState.WAITING, status)


def test_a_failed_cluster_says_why_and_is_not_waited_for(look: Look, apis: Apis) -> None:
    apis.aws["DescribeCluster"] |= {"ClusterStatus": "Failed", "FailureMessage": "EFA health checks did not run"}
    item = look()["HyperPod cluster", "ml-cluster"]
    assert (item.state, item.detail) == (ReadinessState.FAILED, "Failed: EFA health checks did not run")


def test_nodes_in_deep_health_checks_count_but_are_not_ready(look: Look, apis: Apis) -> None:
    checked = node(WORKERS, "DeepHealthCheckInProgress")
    workers(apis, node(WORKERS), node(WORKERS), checked, checked, current=4)
    item = look()["instance group", WORKERS]
    assert item.state is ReadinessState.WAITING
    assert item.detail == "4 of 4 nodes: 2 Running, 2 DeepHealthCheckInProgress; launched from 08:53 UTC"


SHORTAGE = "We currently do not have sufficient ml.p5.48xlarge capacity in the Availability Zone us-west-2b."


def test_a_shortage_shows_the_text_that_only_the_event_itself_has(look: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1)
    apis.aws["ListClusterEvents"] = {"Events": [event(2, "Scaling failed.", "Error"), event(1, "Launching 1 of 4.")]}
    apis.aws["DescribeClusterEvent"] = failure("InstanceGroupScaling", SHORTAGE)
    item = look()["instance group", WORKERS]
    assert item.state is ReadinessState.WAITING
    assert item.detail == f"1 of 4 nodes: 1 Running; 08:53 UTC: Scaling failed. {SHORTAGE}"


@pytest.fixture
def kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the operator's time zone to one that differs from UTC by hours and a half."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("kolkata")
def test_times_are_utc_wherever_the_operator_is(look: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), node(WORKERS, "Pending"), current=1)
    apis.aws["ListClusterEvents"] = {"Events": [event(1, "Launching 3.")]}
    detail = look()["instance group", WORKERS].detail
    assert detail.endswith("launched from 08:53 UTC; 08:53 UTC: Launching 3.")


def test_a_shortage_is_not_hidden_by_what_happens_to_single_nodes_meanwhile(look: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1)
    lost = event(4, "Instance lost orchestration-ready.", "Warn", "Instance")
    joined = event(3, "Instance joined.", "Info", "Instance")
    apis.aws["ListClusterEvents"] = {"Events": [lost, joined, event(2, "Scaling failed.", "Error")]}
    apis.aws["DescribeClusterEvent"] = failure("InstanceGroupScaling", SHORTAGE)
    assert look()["instance group", WORKERS].detail.endswith(SHORTAGE)


def test_a_shortage_that_is_over_is_not_shown(look: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), node(WORKERS, "Pending"), current=1)
    apis.aws["ListClusterEvents"] = {"Events": [event(2, "Launching 3."), event(1, "Scaling failed.", "Error")]}
    expected = "1 of 4 nodes: 1 Running, 1 Pending; launched from 08:53 UTC; 08:53 UTC: Launching 3."
    assert look()["instance group", WORKERS].detail == expected


def test_min_accepts_the_group_s_minimum_of_nodes(look: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1)
    apis.aws["ListClusterEvents"] = {"Events": []}
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(usable_node())]
    apis.kubernetes[RAY_CLUSTER] = {"status": {"availableWorkerReplicas": 1}}
    apis.kubernetes[PODS] = {"items": [head_pod()]}
    items = look(Require.MIN)
    assert {item.state for item in items.values()} == {ReadinessState.READY}
    assert items["instance group", WORKERS].detail == "1 of 4 nodes (1 required): 1 Running"
    assert items["Kubernetes nodes", WORKERS].detail == "1 of 4 Ready and Schedulable (1 required)"
    assert items["RayCluster", "ray/rayml"].detail == "starting, 1 of 4 workers (1 required)"


def test_min_asks_for_min_count_nodes(apis: Apis, clients: Clients) -> None:
    groups = [
        group.model_copy(update={"min_count": 3 if group.name == WORKERS else None})
        for group in DEV.hyperpod.instance_groups
    ]
    hyperpod = DEV.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    environment = DEV.model_copy(update={"hyperpod": hyperpod})
    workers(apis, node(WORKERS), node(WORKERS), current=2)
    apis.aws["ListClusterEvents"] = {"Events": []}
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(*[usable_node()] * 3)]
    states = {(item.kind, item.name): item.state for item in observe(environment, clients, Require.MIN)}
    assert states["instance group", WORKERS] is ReadinessState.WAITING
    assert states["Kubernetes nodes", WORKERS] is ReadinessState.READY


def test_min_still_requires_a_head(look: Look, apis: Apis) -> None:
    apis.kubernetes[RAY_CLUSTER] = {"status": {"availableWorkerReplicas": 1}}
    assert look(Require.MIN)["RayCluster", "ray/rayml"].state is ReadinessState.WAITING


@pytest.fixture
def sleepy(apis: Apis, clients: Clients) -> Look:
    """Observe `dev` with worker nodes of which all but one may sleep."""
    groups = [
        group.model_copy(update={"sleep": Sleep(min=1)}) if group.name == WORKERS else group
        for group in DEV.hyperpod.instance_groups
    ]
    hyperpod = DEV.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    environment = DEV.model_copy(update={"hyperpod": hyperpod})
    apis.kubernetes[SLEEPER] = apis.kubernetes[REAPER]
    return lambda *required: {(item.kind, item.name): item for item in observe(environment, clients, *required)}


def replicas(apis: Apis, asked: int, available: int) -> None:
    """Serve a RayCluster that asks for so many workers."""
    apis.kubernetes[RAY_CLUSTER]["spec"] = {
        "workerGroupSpecs": [{"groupName": "gpu-group", "replicas": asked, "template": {}}]
    }
    apis.kubernetes[RAY_CLUSTER]["status"]["availableWorkerReplicas"] = available


@pytest.mark.parametrize("required", [(), (Require.MIN,)], ids=["all", "min"])
def test_a_group_that_sleeps_is_ready_and_says_so(sleepy: Look, apis: Apis, required: tuple[Require, ...]) -> None:
    workers(apis, node(WORKERS), current=1, target=1)
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(usable_node())]
    replicas(apis, 1, 1)
    items = sleepy(*required)
    assert {item.state for item in items.values()} == {ReadinessState.READY}
    assert items["instance group", WORKERS].detail == "1 of 1 nodes: 1 Running; asleep; what needs it wakes it to 4"
    assert items["Kubernetes nodes", WORKERS].detail == "1 of 1 Ready and Schedulable"
    assert items["RayCluster", "ray/rayml"].detail == "ready, 1 of 1 workers; 3 asleep"


SLEEPER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kuberay/leases/sleeper"


def saved(apis: Apis, state: str) -> None:
    """Serve what the sleeper saved."""
    metadata = {"name": "sleeper", "annotations": {"ray-on-hyperpod/state": state}}
    apis.kubernetes[SLEEPER_LEASE] = {"metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        ({"asleep": {WORKERS: 1_760_000_000}}, "asleep since 2025-10-09 08:53 UTC; what needs it wakes it to 4"),
        (
            {"asleep": {WORKERS: 1_760_000_000}, "woken": {WORKERS: "used by run train-7"}},
            "asleep since 2025-10-09 08:53 UTC; wakes: used by run train-7",
        ),
        ({"woken": {WORKERS: "used by run train-7"}}, "asleep; wakes: used by run train-7"),
        # Of another version, or that nobody can read.
        *(({"groups": {}}, "asleep; what needs it wakes it to 4"), ([], "asleep; what needs it wakes it to 4")),
        ({"asleep": {WORKERS: "yesterday"}}, "asleep; what needs it wakes it to 4"),
        ({"asleep": {WORKERS: 1e300}}, "asleep; what needs it wakes it to 4"),
        ({"asleep": [WORKERS], "woken": 7}, "asleep; what needs it wakes it to 4"),
    ],
)
def test_a_group_says_since_when_it_sleeps_and_what_wakes_it(
    sleepy: Look, apis: Apis, state: object, detail: str
) -> None:
    workers(apis, node(WORKERS), current=1, target=1)
    saved(apis, json.dumps(state))
    assert sleepy()["instance group", WORKERS].detail == f"1 of 1 nodes: 1 Running; {detail}"


def test_today_has_no_date(sleepy: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1, target=1)
    now = datetime.now(UTC)
    saved(apis, json.dumps({"asleep": {WORKERS: now.timestamp()}}))
    assert f"asleep since {now:%H:%M} UTC;" in sleepy()["instance group", WORKERS].detail


def test_a_group_that_wakes_says_what_wakes_it(sleepy: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1, target=4)
    apis.aws["ListClusterEvents"] = {"Events": []}
    saved(apis, json.dumps({"woken": {WORKERS: "used by run train-7"}}))
    assert "; wakes: used by run train-7" in sleepy()["instance group", WORKERS].detail
    workers(apis, *[node(WORKERS)] * 4, current=4, target=4)
    assert "wakes" not in sleepy()["instance group", WORKERS].detail


def test_who_may_not_read_the_sleepers_lease_sees_the_rest(sleepy: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1, target=1)
    apis.kubernetes[SLEEPER_LEASE] = 403, {"kind": "Status", "message": "forbidden"}
    assert "asleep; what needs it wakes it to 4" in sleepy()["instance group", WORKERS].detail


def test_a_group_that_wakes_is_waited_for(sleepy: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1, target=4)
    apis.aws["ListClusterEvents"] = {"Events": []}
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(usable_node())]
    replicas(apis, 4, 1)
    items = sleepy()
    waiting = {key for key, item in items.items() if item.state is ReadinessState.WAITING}
    assert waiting == {("instance group", WORKERS), ("Kubernetes nodes", WORKERS), ("RayCluster", "ray/rayml")}


def test_a_group_that_does_not_wake_names_the_next(apis: Apis, clients: Clients) -> None:
    groups = [
        group.model_copy(update={"sleep": Sleep(wake=("spare",))}) if group.name == WORKERS else group
        for group in DEV.hyperpod.instance_groups
    ]
    hyperpod = DEV.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    apis.kubernetes[SLEEPER] = apis.kubernetes[REAPER]
    workers(apis, current=0, target=4)
    apis.aws["ListClusterEvents"] = {"Events": []}
    found = observe(DEV.model_copy(update={"hyperpod": hyperpod}), clients)
    [item] = [item for item in found if (item.kind, item.name) == ("instance group", WORKERS)]
    assert item.detail == "0 of 4 nodes; after 30 minutes spare wakes, too"


def test_fewer_nodes_than_the_minimum_of_a_sleeping_group_are_waited_for(sleepy: Look, apis: Apis) -> None:
    workers(apis, current=0, target=0)
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes()]
    item = sleepy()["instance group", WORKERS]
    assert (item.state, item.detail.partition(";")[0]) == (ReadinessState.WAITING, "0 of 0 nodes")


def test_a_lowered_group_without_sleep_is_waited_for(look: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1, target=1)
    replicas(apis, 1, 1)
    items = look()
    assert items["instance group", WORKERS].state is ReadinessState.WAITING
    assert items["RayCluster", "ray/rayml"].detail == "ready, 1 of 4 workers"


def test_events_are_asked_for_under_continuous_provisioning_only(look: Look, apis: Apis) -> None:
    workers(apis, node(WORKERS), current=1)
    del apis.aws["DescribeCluster"]["NodeProvisioningMode"]
    apis.aws["ListClusterEvents"] = aws_error("ValidationException", "needs NodeProvisioningMode Continuous")
    assert look()["instance group", WORKERS].detail == "1 of 4 nodes: 1 Running"


def test_a_node_s_message_is_shown(look: Look, apis: Apis) -> None:
    failed = node(WORKERS, "Failure", "Lifecycle scripts did not run successfully")
    workers(apis, *[node(WORKERS)] * 3, failed, current=4)
    item = look()["instance group", WORKERS]
    assert item.state is ReadinessState.WAITING
    assert item.detail == (
        "4 of 4 nodes: 3 Running, 1 Failure; i-0123456789abcdef0: Lifecycle scripts did not run successfully"
    )


def test_a_count_that_was_not_deployed_yet_is_named(look: Look, apis: Apis) -> None:
    workers(apis, *[node(WORKERS)] * 3, current=3, target=3)
    item = look()["instance group", WORKERS]
    assert item.state is ReadinessState.WAITING
    advice = "the environment says 4: deploy the hyperpod stack, or change the environment"
    assert item.detail == f"3 of 3 nodes: 3 Running; {advice}"


def test_a_group_that_the_cluster_lacks_is_named(look: Look, apis: Apis) -> None:
    apis.aws["DescribeCluster"]["InstanceGroups"] = [group(HEAD, 1)]
    assert look()["instance group", WORKERS].detail == "not in the cluster: deploy the hyperpod stack"


def test_all_pages_of_a_big_cluster_s_nodes_are_counted(look: Look, apis: Apis) -> None:
    first = {"ClusterNodeSummaries": [node(HEAD), *[node(WORKERS)] * 2], "NextToken": "2"}
    apis.aws["ListClusterNodes"] = [first, {"ClusterNodeSummaries": [node(WORKERS)] * 2}]
    assert look()["instance group", WORKERS].state is ReadinessState.READY


@pytest.mark.parametrize(
    ("hindered", "told"),
    [
        (usable_node(health="Unschedulable", deep="InProgress"), "1 in deep health checks"),
        (usable_node(health="UnschedulablePendingReplacement"), "1 UnschedulablePendingReplacement"),
        (usable_node(health=None), "1 without a health status"),
        (usable_node(deep="Failed"), "1 failed deep health checks"),
        (usable_node() | {"spec": {"unschedulable": True}}, "1 cordoned"),
    ],
)
def test_a_node_that_pods_cannot_use_says_why(look: Look, apis: Apis, hindered: dict[str, Any], told: str) -> None:
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(*[usable_node()] * 3, hindered)]
    item = look()["Kubernetes nodes", WORKERS]
    assert (item.state, item.detail) == (ReadinessState.WAITING, f"3 of 4 Ready and Schedulable; {told}")


def test_a_lost_node_says_who_replaces_it_and_by_which_command(look: Look, apis: Apis) -> None:
    lost = usable_node(ready=False)
    apis.kubernetes[NODES] = [nodes(lost), nodes(*[usable_node()] * 3, lost)]
    items = look()
    replace = "batch-replace-cluster-nodes --cluster-name ml-cluster --node-ids i-0123456789abcdef0"
    now = f"to replace it now: `aws sagemaker {replace}`"
    said = {name: items["Kubernetes nodes", name].detail.split("; ")[1:] for name in (HEAD, WORKERS)}
    assert said == {
        HEAD: ["1 not Ready", "HyperPod does not replace it automatically", now],
        WORKERS: ["1 not Ready", "HyperPod replaces it automatically", now],
    }


def test_a_running_image_build_is_waited_for(look: Look, apis: Apis) -> None:
    apis.kubernetes[JOBS] = {"items": [job(active=1)]}
    assert look()["Ray image", "aws-ray-custom"].detail == "building"
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes(*[usable_node()] * 4)]
    apis.kubernetes[JOBS] = {"items": [job(active=1, failed=1)]}
    item = look()["Ray image", "aws-ray-custom"]
    assert item.state is ReadinessState.WAITING
    assert item.detail.startswith("building; failed attempts: 1, see `kubectl logs -n image-build job/ray-image-1")


def test_a_failed_image_build_shows_the_job_s_message_and_the_end_of_its_log(look: Look, apis: Apis) -> None:
    message = "Job has reached the specified backoff limit"
    apis.kubernetes[JOBS] = {"items": [job(failed=3, conditions=[condition("Failed", message=message)])]}
    apis.kubernetes[BUILD_LOG] = "\n".join(f"line {number}" for number in range(100))
    item = look()["Ray image", "aws-ray-custom"]
    assert item.state is ReadinessState.FAILED
    told, logs, again, log = item.detail.split("; ")
    assert (told, logs) == (message, "see `kubectl logs -n image-build job/ray-image-1 --all-containers`")
    assert again == "`ops image build --env dev` builds it again"
    address, *lines = log.splitlines()
    assert address == "the end of s3://bucket/image-build/tag.log, of 10:00 UTC:"
    assert lines == [f"| line {number}" for number in range(80, 100)]


def test_a_failed_image_build_without_a_log_says_where_it_should_be(look: Look, apis: Apis) -> None:
    apis.kubernetes[JOBS] = {"items": [job(failed=3, conditions=[condition("Failed", message="failed")])]}
    item = look()["Ray image", "aws-ray-custom"]
    assert item.state is ReadinessState.FAILED
    assert item.detail.endswith("no log at s3://bucket/image-build/tag.log (404)")


def test_an_image_build_that_finds_no_place_says_why(look: Look, apis: Apis) -> None:
    apis.kubernetes[JOBS] = {"items": [job(active=1)]}
    reason = "0/2 nodes are available: 2 Insufficient ephemeral-storage"
    status = {"phase": "Pending", "conditions": [condition("PodScheduled", "False", reason)]}
    apis.kubernetes[BUILD_PODS] = {"items": [{"metadata": {"name": "ray-image-1-x"}, "status": status}]}
    item = look()["Ray image", "aws-ray-custom"]
    assert (item.state, item.detail) == (ReadinessState.WAITING, f"building; ray-image-1-x: {reason}")


def test_a_build_is_ready_only_when_the_registry_has_its_tag(look: Look, apis: Apis) -> None:
    apis.aws["DescribeImages"] = aws_error("ImageNotFoundException", "no image")
    item = look()["Ray image", "aws-ray-custom"]
    assert item.state is ReadinessState.FAILED
    gone = "built, but the registry has no tag tag"
    assert item.detail == f"{gone}; `ops image build --env dev` builds it again"


def test_a_stand_in_of_the_rehearsal_is_named_as_such(look: Look, apis: Apis) -> None:
    apis.aws["DescribeImages"] = {"imageDetails": [{"imageManifestMediaType": STAND_IN_IMAGE}]}
    item = look()["Ray image", "aws-ray-custom"]
    assert (item.state, item.detail) == (ReadinessState.READY, "the rehearsal's stand-in of tag")


def test_ray_pods_whose_image_does_not_exist_say_so(look: Look, apis: Apis) -> None:
    apis.kubernetes[RAY_CLUSTER] = {"status": {"availableWorkerReplicas": 0}}
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry/ray:1": not found'}
    container = {"name": "ray", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Pending", "containerStatuses": [container | {"state": {"waiting": waiting}}]}
    apis.kubernetes[PODS] = {"items": [{"metadata": {"name": "rayml-head"}, "status": status}]}
    item = look()["RayCluster", "ray/rayml"]
    assert item.state is ReadinessState.WAITING
    assert f"rayml-head: ImagePullBackOff: {waiting['message']}" in item.detail


def test_a_directory_that_could_not_be_given_to_ray_fails(look: Look, apis: Apis) -> None:
    failed = job("ray-directory-1", failed=7, conditions=[condition("Failed", message="no more tries")])
    apis.kubernetes[DIRECTORY_JOBS] = {"items": [failed]}
    item = look()["directory", "/fsx/ray"]
    assert item.state is ReadinessState.FAILED
    assert item.detail.startswith("no more tries; see `kubectl logs -n ")


def test_a_directory_whose_job_waits_says_why(look: Look, apis: Apis) -> None:
    apis.kubernetes[DIRECTORY_JOBS] = {"items": [job("ray-directory-1", active=1)]}
    apis.kubernetes[DIRECTORY_PODS] = {"items": [claim_unbound("ray-directory-1-x")]}
    item = look()["directory", "/fsx/ray"]
    assert item.state is ReadinessState.WAITING
    assert item.detail == "its Job is running; ray-directory-1-x: pod has unbound immediate PersistentVolumeClaims"


def test_only_the_newest_image_build_counts(look: Look, apis: Apis) -> None:
    failed = job("ray-image-1", "2026-11-01T10:00:00Z", conditions=[condition("Failed")])
    built = job("ray-image-2", "2026-11-02T10:00:00Z", conditions=[condition("Complete")])
    apis.kubernetes[JOBS] = {"items": [built, failed]}
    assert look()["Ray image", "aws-ray-custom"].state is ReadinessState.READY


def test_what_the_ray_stack_makes_is_waited_for_until_it_is_deployed(look: Look, apis: Apis) -> None:
    del apis.kubernetes[RAY_CLUSTER], apis.kubernetes[CLAIM], apis.kubernetes[REAPER]
    apis.kubernetes[JOBS] = apis.kubernetes[DIRECTORY_JOBS] = {"items": []}
    items = look()
    assert items["directory", "/fsx/ray"].detail == "no Job: deploy the ray stack"
    assert items["Ray image", "aws-ray-custom"].detail == "no build Job: deploy the ray stack"
    made = {"volume claim": "ray/fsx-claim", "RayCluster": "ray/rayml", "reaper": "kuberay/ray-reaper"}
    for item in (items[kind_and_name] for kind_and_name in made.items()):
        assert (item.state, item.detail) == (ReadinessState.WAITING, "does not exist: deploy the ray stack")


def test_a_claim_without_a_volume_says_why(look: Look, apis: Apis) -> None:
    apis.kubernetes[CLAIM]["status"]["phase"] = "Pending"
    apis.kubernetes[EVENTS] = {"items": [kubernetes_event("2", "no volume"), kubernetes_event("1", "older")]}
    item = look()["volume claim", "ray/fsx-claim"]
    assert (item.state, item.detail) == (ReadinessState.WAITING, "Pending; no volume")


def test_a_reaper_without_its_replicas_says_why(look: Look, apis: Apis) -> None:
    waiting = {"reason": "CrashLoopBackOff"}
    container = {"name": "r", "image": "i", "imageID": "", "ready": False, "restartCount": 1}
    status = {"containerStatuses": [container | {"state": {"waiting": waiting}}]}
    apis.kubernetes[REAPER] = deployment(available=1)
    apis.kubernetes[REAPER_PODS] = {"items": [{"metadata": {"name": "ray-reaper-1"}, "status": status}]}
    item = look()["reaper", "kuberay/ray-reaper"]
    assert (item.state, item.detail) == (
        ReadinessState.WAITING,
        "1 of 2 replicas; ray-reaper-1: CrashLoopBackOff; "
        "see `kubectl logs -n kuberay -l app.kubernetes.io/name=ray-reaper`",
    )
    assert look(Require.MIN)["reaper", "kuberay/ray-reaper"].state is ReadinessState.READY


def test_a_ray_cluster_that_just_began_is_waited_for(look: Look, apis: Apis) -> None:
    del apis.kubernetes[RAY_CLUSTER]["status"]
    item = look()["RayCluster", "ray/rayml"]
    assert (item.state, item.detail) == (ReadinessState.WAITING, "starting, 0 of 4 workers")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {
                "conditions": [
                    condition(
                        "PodScheduled",
                        "False",
                        "0/7 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/7 nodes are available.",
                    )
                ]
            },
            "0/7 nodes are available: 4 Insufficient nvidia.com/gpu",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]},
            "ImagePullBackOff: not found",
        ),
        (
            {"initContainerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
            "CrashLoopBackOff",
        ),
    ],
)
def test_a_ray_cluster_without_all_pods_says_what_hinders_one(
    look: Look, apis: Apis, status: dict[str, Any], told: str
) -> None:
    apis.kubernetes[RAY_CLUSTER] = {"status": {"state": "ready", "availableWorkerReplicas": 3}}
    for key in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(key, []):
            container |= {"name": "ray", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    waiting = {"metadata": {"name": "rayml-gpu-group-worker-x"}, "status": status}
    apis.kubernetes[PODS] = {"items": [{"metadata": {"name": "rayml-head"}, "status": {}}, waiting]}
    item = look()["RayCluster", "ray/rayml"]
    assert item.state is ReadinessState.WAITING
    assert item.detail == f"ready, 3 of 4 workers; rayml-gpu-group-worker-x: {told}"


@pytest.mark.parametrize(
    ("ending", "node", "phase"),
    [("2026-11-02T09:00:00Z", None, "Running"), (None, None, "Pending"), (None, "hyperpod-i-gone", "Running")],
    ids=["ends", "starts", "has lost its node"],
)
def test_a_ray_cluster_whose_worker_is_replaced_is_waited_for(
    look: Look, apis: Apis, ending: str | None, node: str | None, phase: str
) -> None:
    """Its status counts workers that end or whose node is gone, and does not know of one too many (kuberay#4078)."""
    labels = {"ray.io/node-type": "worker", "ray.io/group": "gpu-group", "ray.io/cluster": "rayml"}
    pod = {
        "metadata": {"name": "x", "labels": labels, "deletionTimestamp": ending},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    }
    apis.kubernetes[RAY_CLUSTER]["spec"] = {"workerGroupSpecs": [{"groupName": "gpu-group", "template": {}}]}
    apis.kubernetes |= {PODS: {"items": [pod]}, NODES: nodes(usable_node())}
    item = look()["RayCluster", "ray/rayml"]
    assert (item.state, item.detail) == (ReadinessState.WAITING, "ready, 4 of 4 workers; KubeRay replaces 1 pod")


def test_the_operator_s_own_reason_is_shown(look: Look, apis: Apis) -> None:
    apis.kubernetes[RAY_CLUSTER] = {"status": {"state": "failed", "reason": "quota exceeded"}}
    assert look()["RayCluster", "ray/rayml"].detail == "failed, 0 of 4 workers; quota exceeded"


@pytest.mark.parametrize(("available", "state"), [(2, ReadinessState.READY), (1, ReadinessState.WAITING)])
def test_with_autoscaling_the_autoscalers_number_of_workers_counts(
    apis: Apis, clients: Clients, available: int, state: ReadinessState
) -> None:
    [cluster] = DEV.ray.clusters
    ray = DEV.ray.model_copy(update={"clusters": (cluster.model_copy(update={"autoscaling": Autoscaling()}),)})
    status = {"state": "ready", "availableWorkerReplicas": available, "desiredWorkerReplicas": 2}
    apis.kubernetes[RAY_CLUSTER] = {"status": status}
    items = {(item.kind, item.name): item for item in observe(DEV.model_copy(update={"ray": ray}), clients)}
    item = items["RayCluster", "ray/rayml"]
    assert (item.state, item.detail) == (state, f"ready, {available} of 2 workers")


def test_an_existing_image_is_not_built(clients: Clients) -> None:
    uri = "111122223333.dkr.ecr.us-west-2.amazonaws.com/ray:2.42.1-1"
    image = DEV.image.model_copy(update={"repository": None, "uri": uri})
    items = {(item.kind, item.name): item for item in observe(DEV.model_copy(update={"image": image}), clients)}
    assert items["Ray image", uri].state is ReadinessState.READY
