"""Workers that run but are not Ready, while their head and their node are (ray-project/ray#64349)."""

from types import SimpleNamespace
from typing import Any

import pytest

from controllers.decision import NodeState, Pod, is_unwell
from controllers.reaper import Reaper
from k8s_charts.ray.pods import UNWELL_SECONDS
from tests.support.fake_kubernetes import EVENTS, LEASES, NODES, PODS, FakeKubernetes, Object
from tests.support.waiting import wait_until
from tests.unit.controllers.conftest import Start
from tests.unit.support.nodes_and_pods import REPLACE, a_node, a_ray_pod

HEAD = a_ray_pod("head", since=600)
ZOMBIE = a_ray_pod("worker", ready="False", since=500)
READY = a_node()


def changed(pod: Object, **status: Any) -> Object:
    return pod | {"status": pod["status"] | status}


def ending(pod: Object) -> Object:
    metadata = {"deletionTimestamp": "2026-11-01T10:00:00Z", "deletionGracePeriodSeconds": 30}
    return pod | {"metadata": pod["metadata"] | metadata}


def unwell(pod: Object, node: Object | None = READY, heads: tuple[Object, ...] = (HEAD,)) -> bool:
    return is_unwell(Pod.of(pod), NodeState.of(node) if node else None, [Pod.of(each) for each in (pod, *heads)])


def test_worker_that_was_ready_and_no_longer_is_is_unwell() -> None:
    assert unwell(ZOMBIE)


@pytest.mark.parametrize(
    "pod",
    [
        a_ray_pod("worker"),
        # The head has a liveness probe of its own, and its loss ends every job.
        a_ray_pod("head", ready="False", since=500),
        # The kubelet sets the condition before it has pulled the image: such a worker was never Ready. An image that
        # takes an hour must not be pulled again and again.
        a_ray_pod("worker", ready="False", since=3600, started=300),
        a_ray_pod("worker", ready="False", since=300, started=300),
        # Nobody reports on it: its node is silent.
        a_ray_pod("worker", ready="Unknown", since=500),
        # A RayService's worker without a replica of a Serve application is well, and not Ready.
        a_ray_pod("worker", ready="False", since=500, serve="true"),
        changed(ZOMBIE, phase="Pending"),
        changed(ZOMBIE, phase="Failed"),
        changed(ZOMBIE, containerStatuses=[]),
        changed(ZOMBIE, containerStatuses=[{"name": "ray", "state": {"terminated": {"exitCode": 1}}}]),
        changed(ZOMBIE, conditions=[]),
        ending(ZOMBIE),
    ],
    ids=[
        *("ready", "head", "long pull", "first second", "unknown", "serves", "pending", "failed"),
        *("no container", "container ended", "no condition", "ends"),
    ],
)
def test_other_pods_are_not(pod: Object) -> None:
    assert not unwell(pod)


@pytest.mark.parametrize("node", [None, a_node(ready="False", since=1), a_node(ready="Unknown", since=1)])
def test_a_worker_is_not_unwell_because_of_its_node(node: Object | None) -> None:
    assert not unwell(ZOMBIE, node)


@pytest.mark.parametrize(
    "heads",
    [
        (),
        (a_ray_pod("head", ready="False", since=1),),
        (ending(HEAD),),
        (HEAD, ending(HEAD)),
        (
            HEAD
            | {"metadata": HEAD["metadata"] | {"labels": {"ray.io/cluster": "another", "ray.io/node-type": "head"}}},
        ),
    ],
    ids=["none", "not ready", "ends", "is replaced", "of another cluster"],
)
def test_a_worker_is_not_unwell_because_of_its_head(heads: tuple[Object, ...]) -> None:
    assert not unwell(ZOMBIE, heads=heads)


@pytest.fixture
def start(start: Start, kubernetes: FakeKubernetes, now: SimpleNamespace) -> Start:
    """Start a reaper beside an unwell worker; return it once it has listed pods and nodes."""
    kubernetes.live = {LEASES, PODS, NODES}
    for pod in (HEAD, ZOMBIE):
        kubernetes.put(PODS, pod)
    kubernetes.put(NODES, READY)
    return start


def seen(reaper: Reaper, name: str, *, ready: bool) -> None:
    """Wait until the reaper's copy shows a pod as it is."""
    wait_until(lambda: reaper._pods.snapshot()[name].ready is ready, f"{name} in the reaper's copy")


def test_unwell_worker_is_deleted_in_order_after_the_time_that_the_reaper_itself_saw(
    start: Start, kubernetes: FakeKubernetes, now: SimpleNamespace
) -> None:
    reaper = start()
    reaper.poll()
    now.later = UNWELL_SECONDS - 10
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == [], "the pod's own time does not count: its kubelet's clock may be wrong"
    now.later = UNWELL_SECONDS
    reaper.poll()
    [options] = kubernetes.asked("DELETE", f"{PODS}/rayml-worker")
    assert "gracePeriodSeconds" not in options
    assert options["preconditions"] == {"uid": "u-rayml-worker", "resourceVersion": "1"}
    events = kubernetes.asked("POST", EVENTS)
    assert {event["reason"] for event in events} == {"UnreadyWorkerReplaced"}
    assert {event["involvedObject"]["kind"] for event in events} == {"Pod", "RayCluster"}
    assert "although its node and its head are" in events[0]["message"]


def test_time_begins_again_when_the_worker_or_its_head_was_away(
    start: Start, kubernetes: FakeKubernetes, now: SimpleNamespace
) -> None:
    reaper = start()
    reaper.poll()
    kubernetes.put(PODS, a_ray_pod("head", ready="False", since=1))
    seen(reaper, "rayml-head", ready=False)
    now.later = UNWELL_SECONDS - 10
    reaper.poll()
    kubernetes.put(PODS, HEAD)
    seen(reaper, "rayml-head", ready=True)
    now.later = UNWELL_SECONDS + 10
    reaper.poll()
    now.later = 2 * UNWELL_SECONDS
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []
    now.later = 2 * UNWELL_SECONDS + 10
    reaper.poll()
    assert len(kubernetes.asked("DELETE", PODS)) == 1


def test_worker_that_recovered_a_moment_ago_is_kept(
    start: Start, kubernetes: FakeKubernetes, now: SimpleNamespace
) -> None:
    kubernetes.live = {LEASES}
    reaper = start()
    reaper.poll()
    kubernetes.put(PODS, a_ray_pod("worker", since=1))
    now.later = UNWELL_SECONDS
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []


def test_head_that_is_away_now_keeps_the_worker(start: Start, kubernetes: FakeKubernetes, now: SimpleNamespace) -> None:
    reaper = start()
    reaper.poll()
    now.later = UNWELL_SECONDS
    kubernetes.refuse[f"GET {PODS}"] = (500, "not now")
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []


def test_runs_save_first_and_another_replica_that_came_later_does_not_take_that_back(
    start: Start, kubernetes: FakeKubernetes, now: SimpleNamespace
) -> None:
    kubernetes.put(LEASES, {"metadata": {"name": "train", "labels": {"ray-on-hyperpod/trains": "rayml"}}})
    reaper = start()
    reaper.poll()
    now.later = UNWELL_SECONDS
    reaper.poll()
    [asked] = kubernetes.asked("PUT", f"{PODS}/rayml-worker/status")
    move = asked["status"]["conditions"][-1]
    assert (move["type"], move["status"]) == ("ray-on-hyperpod/Move", "True")
    assert move["message"].endswith("; first saves train")
    other = start()
    other.poll()
    assert len(kubernetes.asked("PUT", PODS)) == 1
    kubernetes.put(LEASES, {"metadata": {"name": "train", "labels": {}}})
    now.later = UNWELL_SECONDS + 5
    wait_until(lambda: reaper._pods.snapshot()["rayml-worker"].asked_at is not None, "its request in its copy")
    reaper.poll()
    assert len(kubernetes.asked("DELETE", PODS)) == 1


def test_request_is_withdrawn_when_the_worker_is_ready_again(start: Start, kubernetes: FakeKubernetes) -> None:
    recovered = a_ray_pod("worker", since=1)
    recovered["status"]["conditions"].append(
        {"type": "ray-on-hyperpod/Move", "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"}
    )
    kubernetes.put(PODS, recovered)
    reaper = start()
    kubernetes.put(PODS, recovered)
    wait_until(lambda: reaper._pods.snapshot()["rayml-worker"].asked_at is not None, "the pod in its copy")
    reaper.poll()
    [withdrawn] = kubernetes.asked("PUT", f"{PODS}/rayml-worker/status")
    assert withdrawn["status"]["conditions"][-1]["status"] == "False"


def test_worker_on_a_labelled_node_moves_without_that_time(start: Start, kubernetes: FakeKubernetes) -> None:
    kubernetes.put(NODES, a_node(health=REPLACE))
    reaper = start()
    kubernetes.put(NODES, a_node(health=REPLACE))
    wait_until(lambda: reaper._nodes.snapshot()[READY["metadata"]["name"]].health == REPLACE, "the label in its copy")
    reaper.poll()
    reasons = {event["reason"] for event in kubernetes.asked("POST", EVENTS)}
    assert reasons == {"MovedOffUnhealthyNode"}
