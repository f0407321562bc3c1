"""Pods of nodes that do not exist: replaced before Kubernetes' own pod garbage collector acts after 40 to 60 s."""

from types import SimpleNamespace

import pytest

from controllers.decision import GONE_SECONDS
from controllers.reaper import Reaper
from tests.support.fake_kubernetes import EVENTS, NODES, PODS, FakeKubernetes
from tests.support.waiting import wait_until
from tests.unit.controllers.conftest import Start
from tests.unit.support.nodes_and_pods import NODE, a_node, a_pod


@pytest.fixture
def reaper(start: Start, kubernetes: FakeKubernetes, now: SimpleNamespace) -> Reaper:
    """Start a reaper beside a pod whose node does not exist, and let it look once."""
    kubernetes.live = {PODS, NODES}
    kubernetes.put(PODS, a_pod())
    made = start()
    made.poll()
    now.later = GONE_SECONDS - 1
    made.poll()
    assert kubernetes.asked("DELETE", PODS) == []
    return made


def known(reaper: Reaper, *nodes: str) -> None:
    """Wait until the reaper's copy has these nodes."""
    wait_until(lambda: reaper._nodes.snapshot().keys() == set(nodes), "the reaper's copy of the nodes")


def test_pod_is_force_deleted_with_its_events(reaper: Reaper, kubernetes: FakeKubernetes, now: SimpleNamespace) -> None:
    now.later = GONE_SECONDS
    reaper.poll()
    [options] = kubernetes.asked("DELETE", f"{PODS}/rayml-worker")
    assert options["gracePeriodSeconds"] == 0
    assert options["preconditions"] == {"uid": "u-rayml-worker", "resourceVersion": "1"}
    on_pod, on_cluster = kubernetes.asked("POST", EVENTS)
    assert {on_pod["reason"], on_cluster["reason"]} == {"StuckPodForceDeleted"}
    assert f"node {NODE} has not existed for 10 s" in on_pod["message"]


def test_node_that_the_watch_does_not_show_yet_keeps_its_pods(
    reaper: Reaper, kubernetes: FakeKubernetes, now: SimpleNamespace
) -> None:
    kubernetes.live = {PODS}
    kubernetes.put(NODES, a_node())
    now.later = GONE_SECONDS + 60
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []


def test_time_begins_again_when_the_node_was_back(
    reaper: Reaper, kubernetes: FakeKubernetes, now: SimpleNamespace
) -> None:
    kubernetes.put(NODES, a_node())
    known(reaper, NODE)
    reaper.poll()
    del kubernetes.collections[NODES][NODE]
    known(reaper)
    now.later = GONE_SECONDS
    reaper.poll()
    now.later = 2 * GONE_SECONDS - 1
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []
    now.later = 2 * GONE_SECONDS
    reaper.poll()
    assert len(kubernetes.asked("DELETE", PODS)) == 1


def test_reaper_that_was_deaf_begins_again(
    reaper: Reaper, kubernetes: FakeKubernetes, now: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    now.later = GONE_SECONDS + 60
    with monkeypatch.context() as patched:
        patched.setattr(reaper, "deafness", lambda: "no answer: nodes")
        reaper.poll()
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []
