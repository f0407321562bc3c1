"""Requests and mirrored collections, against a fake API server that shows the failures of a real one."""

from collections.abc import Iterator

import pytest

from controllers import kubernetes_api
from controllers.kubernetes_api import (
    LONG_WATCH_SECONDS,
    NO_ANSWER,
    ApiServer,
    KubernetesApi,
    KubernetesApiError,
    WatchCache,
)
from tests.support.fake_kubernetes import NODES, PODS, Ended, FakeKubernetes, Object
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.support.nodes_and_pods import a_node, a_pod


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between retries."""
    monkeypatch.setattr(kubernetes_api, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(kubernetes_api, "_LONGEST_PAUSE_SECONDS", 0.05)


@pytest.fixture
def errors() -> list[KubernetesApiError]:
    """Return the list of errors that `mirror` reported."""
    return []


@pytest.fixture
def mirror(kubernetes: FakeKubernetes, errors: list[KubernetesApiError]) -> Iterator[WatchCache[str]]:
    """Return a mirror of the pods (name → uid) that the test must start."""
    made = WatchCache(
        kubernetes.cluster, PODS, lambda pod: str(pod["metadata"]["uid"]), errors.append, labelSelector="l"
    )
    yield made
    made.stop()


def event(kind: str, pod: Object, version: str) -> Object:
    pod["metadata"]["resourceVersion"] = version
    return {"type": kind, "object": pod}


def test_list_comes_in_pages(kubernetes: FakeKubernetes, mirror: WatchCache[str]) -> None:
    for number in range(5):
        kubernetes.put(PODS, a_pod(name=f"pod-{number}"))
    mirror.start()
    assert mirror.silence() == float("inf")
    wait_until(lambda: len(mirror.snapshot()) == 5, "all pages")
    assert mirror.silence() < 10
    lists = [path for _, path, _ in kubernetes.requests if "watch" not in path]
    assert len(lists) == 3
    assert all("labelSelector=l" in path and "limit=250" in path for path in lists)


def test_events_follow_the_list_and_a_closed_watch_resumes(
    kubernetes: FakeKubernetes, mirror: WatchCache[str], errors: list[KubernetesApiError]
) -> None:
    kubernetes.put(PODS, a_pod(name="old"))
    mirror.start()
    watched = kubernetes.watched[PODS]
    watched.put(event("ADDED", a_pod(name="new"), "101"))
    wait_until(lambda: mirror.snapshot().keys() == {"old", "new"}, "the new pod")
    watched.put(event("DELETED", a_pod(name="old"), "102"))
    watched.put(event("BOOKMARK", {"metadata": {}}, "140"))
    watched.put(Ended)
    changed = a_pod(name="new")
    changed["metadata"]["uid"] = "another"
    watched.put(event("MODIFIED", changed, "141"))
    wait_until(lambda: mirror.snapshot() == {"new": "another"}, "the change after the closed watch")
    watches = [path for _, path, _ in kubernetes.requests if "watch" in path]
    assert ["resourceVersion=100" in watches[0], "resourceVersion=140" in watches[1]] == [True, True]
    assert len(kubernetes.requests) == 3, "one list, two watches"
    assert errors == []


def test_version_that_is_too_old_is_listed_again(
    kubernetes: FakeKubernetes, mirror: WatchCache[str], errors: list[KubernetesApiError]
) -> None:
    mirror.start()
    wait_until(lambda: mirror.silence() < 10, "the first list")
    kubernetes.put(PODS, a_pod(name="missed"))
    kubernetes.watched[PODS].put({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}})
    wait_until(lambda: "missed" in mirror.snapshot(), "the second list")
    assert [error.status for error in errors] == [410]


def test_refused_watch_is_retried_without_a_list(
    kubernetes: FakeKubernetes, mirror: WatchCache[str], errors: list[KubernetesApiError]
) -> None:
    kubernetes.refuse[f"WATCH {PODS}"] = (429, "too many requests")
    mirror.start()
    wait_until(lambda: len(errors) >= 2, "refusals")
    kubernetes.refuse.clear()
    kubernetes.watched[PODS].put(event("ADDED", a_pod(name="new"), "101"))
    wait_until(lambda: "new" in mirror.snapshot(), "the new pod")
    assert {error.status for error in errors} == {429}
    assert len([path for _, path, _ in kubernetes.requests if "watch" not in path]) == 1


def test_watch_that_goes_silent_is_given_up(
    kubernetes: FakeKubernetes, errors: list[KubernetesApiError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the watch is: a server that is alive sends bookmarks."""
    monkeypatch.setattr(kubernetes_api, "_SILENT_SECONDS", 0)
    monkeypatch.setattr(kubernetes_api, "_TIMEOUT_SECONDS", 0.3)
    mirror = WatchCache(kubernetes.cluster, PODS, lambda pod: pod, errors.append, seconds=LONG_WATCH_SECONDS)
    mirror.start()
    wait_until(lambda: bool(errors), "an end of the watch")
    assert (errors[0].status, "timed out" in str(errors[0])) == (NO_ANSWER, True)


def test_mirror_that_is_stopped_leaves_its_watch_at_once(
    kubernetes: FakeKubernetes, mirror: WatchCache[str], errors: list[KubernetesApiError]
) -> None:
    mirror.start()
    wait_until(lambda: any("watch" in path for _, path, _ in kubernetes.requests), "the watch")
    mirror.stop()
    mirror.join(PATIENCE_SECONDS)
    assert (mirror.is_alive(), errors) == (False, [])


def test_every_request_carries_the_token_of_that_moment(kubernetes: FakeKubernetes) -> None:
    kubernetes.put(NODES, a_node(name="n"))
    api = KubernetesApi(kubernetes.cluster)
    api.get(f"{NODES}/n")
    (kubernetes.cluster.account / "token").write_text("second\n")
    api.get(f"{NODES}/n")
    api.close()
    assert kubernetes.tokens == ["Bearer first", "Bearer second"]


def test_server_with_another_authority_gets_no_request(kubernetes: FakeKubernetes) -> None:
    (kubernetes.cluster.account / "ca.crt").unlink()
    with pytest.raises(KubernetesApiError) as caught:
        KubernetesApi(kubernetes.cluster).get(NODES)
    assert caught.value.status == NO_ANSWER
    assert kubernetes.requests == []


def test_absent_server_is_reported_as_no_answer(kubernetes: FakeKubernetes) -> None:
    nowhere = ApiServer("localhost", 1, kubernetes.cluster.account)
    with pytest.raises(KubernetesApiError, match="refused") as caught:
        KubernetesApi(nowhere).get(NODES)
    assert caught.value.status == NO_ANSWER


def test_refusal_carries_the_servers_words(kubernetes: FakeKubernetes) -> None:
    kubernetes.refuse[f"GET {NODES}"] = (403, "nodes is forbidden")
    with pytest.raises(KubernetesApiError, match="403: nodes is forbidden"):
        KubernetesApi(kubernetes.cluster).get(NODES)
