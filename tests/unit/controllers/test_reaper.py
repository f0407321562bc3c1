"""The reaper's actions on a cluster, against a fake API server."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest

from controllers import reaper as module
from controllers.reaper import PERMISSIONS, Reaper
from controllers.telemetry import Metrics, serve
from tests.support.fake_kubernetes import EVENTS, LEASES, NODES, PODS, REVIEWS, FakeKubernetes, Object
from tests.support.waiting import wait_until
from tests.unit.controllers.conftest import Start
from tests.unit.support.nodes_and_pods import NODE, NOW, REPLACE, a_node, a_pod

POD = f"{PODS}/rayml-worker"
STUCK = a_pod(asked=20)
LOST = a_node(ready="Unknown", since=60)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Set the wall clock to `NOW`; the monotonic clock continues."""
    clock = SimpleNamespace(time=lambda: NOW, monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def stuck(kubernetes: FakeKubernetes) -> FakeKubernetes:
    """Add a pod that is stuck on a lost node, and a pod that runs on a healthy node."""
    kubernetes.put(PODS, STUCK)
    kubernetes.put(PODS, a_pod(name="rayml-head", node="healthy"))
    kubernetes.put(NODES, LOST)
    kubernetes.put(NODES, a_node(name="healthy"))
    return kubernetes


def value(metrics: Metrics, name: str) -> float:
    [line] = [line for line in metrics.render().splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def lines(capsys: pytest.CaptureFixture[str]) -> list[Object]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_stuck_pod_is_force_deleted_as_it_was_seen_and_nothing_else(
    start: Start, stuck: FakeKubernetes, metrics: Metrics, capsys: pytest.CaptureFixture[str]
) -> None:
    start().poll()
    [options] = stuck.asked("DELETE", PODS)
    assert options["gracePeriodSeconds"] == 0
    assert options["preconditions"] == {"uid": "u-rayml-worker", "resourceVersion": "1"}
    assert stuck.collections[PODS].keys() == {"rayml-head"}
    assert value(metrics, "ray_reaper_stuck_pods") == 1
    assert value(metrics, 'ray_reaper_deletions_total{action="force-delete"}') == 1
    assert value(metrics, "ray_reaper_last_look_timestamp_seconds") == NOW
    [said] = [line for line in lines(capsys) if line["message"] == "force-delete"]
    assert (said["pod"], said["node"]) == ("rayml-worker", NODE)


def test_deletion_is_recorded_on_the_pod_and_on_its_ray_cluster(start: Start, stuck: FakeKubernetes) -> None:
    start().poll()
    on_pod, on_cluster = stuck.asked("POST", EVENTS)
    assert on_pod["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ray",
        "name": "rayml-worker",
        "uid": "u-rayml-worker",
    }
    assert (on_cluster["involvedObject"]["kind"], on_cluster["involvedObject"]["uid"]) == ("RayCluster", "c-1")
    assert on_pod["reason"] == on_cluster["reason"] == "StuckPodForceDeleted"
    assert NODE in on_pod["message"]


def test_pod_on_a_labelled_node_is_deleted_with_its_own_grace_period(start: Start, kubernetes: FakeKubernetes) -> None:
    kubernetes.put(PODS, a_pod())
    kubernetes.put(NODES, a_node(health=REPLACE))
    start().poll()
    [options] = kubernetes.asked("DELETE", PODS)
    assert "gracePeriodSeconds" not in options
    assert {event["reason"] for event in kubernetes.asked("POST", EVENTS)} == {"MovedOffUnhealthyNode"}


@pytest.fixture
def training(kubernetes: FakeKubernetes) -> FakeKubernetes:
    """Add a worker on a node that HyperPod will replace, a run that trains there, and one on another RayCluster."""
    kubernetes.live = {LEASES, PODS}
    kubernetes.put(PODS, a_pod())
    kubernetes.put(NODES, a_node(health=REPLACE))
    for name, cluster in (("train", "rayml"), ("other", "another")):
        kubernetes.put(LEASES, {"metadata": {"name": name, "labels": {"ray-on-hyperpod/trains": cluster}}})
    return kubernetes


def say(kubernetes: FakeKubernetes, *answered: str) -> None:
    """Let the run that trains answer for pods, as its supervisor does."""
    metadata = kubernetes.collections[LEASES]["train"]["metadata"]
    state = json.dumps({"answered": answered, "phase": "running"})
    kubernetes.put(LEASES, {"metadata": metadata | {"annotations": {"ray-on-hyperpod/state": state}}})


def seen(reaper: Reaper, kubernetes: FakeKubernetes) -> None:
    """Wait until the reaper's copy shows the pod as it is now."""
    version = kubernetes.collections[PODS]["rayml-worker"]["metadata"]["resourceVersion"]
    copy = reaper._pods
    wait_until(lambda: copy.snapshot()["rayml-worker"].resource_version == version, "the pod in the reaper's copy")


def test_pod_on_a_live_node_is_deleted_once_the_run_that_trains_there_has_saved(
    start: Start, training: FakeKubernetes, now: SimpleNamespace
) -> None:
    reaper = start()
    reaper.poll()
    [asked] = training.asked("PUT", f"{POD}/status")
    [condition] = asked["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("ray-on-hyperpod/Move", "True")
    assert condition["message"].endswith("; first saves train")
    assert {event["reason"] for event in training.asked("POST", EVENTS)} == {"SavesBeforeMove"}
    seen(reaper, training)
    say(training, "u-of-another-pod")
    for _ in range(3):
        now.monotonic = lambda: time.monotonic() + 3
        reaper.poll()
    assert training.asked("DELETE", PODS) == []
    assert len(training.asked("PUT", PODS)) == 1, "asked once"
    say(training, "u-rayml-worker")
    now.monotonic = lambda: time.monotonic() + 6
    reaper.poll()
    [deletion] = training.asked("DELETE", POD)
    assert deletion["preconditions"]["resourceVersion"] == "2", "the version with the request"
    assert "gracePeriodSeconds" not in deletion


def test_runs_are_listed_seldom_while_they_save(start: Start, training: FakeKubernetes, now: SimpleNamespace) -> None:
    reaper = start()
    reaper.poll()
    seen(reaper, training)
    before = len(training.requests)
    for _ in range(10):
        reaper.poll()
    now.monotonic = lambda: time.monotonic() + 3
    reaper.poll()
    asked = [path for method, path, _ in training.requests[before:] if "watch" not in path]
    assert asked == [f"{LEASES}?labelSelector=ray-on-hyperpod%2Ftrains%3Drayml"]


@pytest.mark.parametrize("label", [{}, {"ray-on-hyperpod/queue": "rayml"}, {"ray-on-hyperpod/trains": "another"}])
def test_run_that_does_not_train_there_or_has_an_older_supervisor_is_not_waited_for(
    start: Start, training: FakeKubernetes, label: dict[str, str]
) -> None:
    training.put(LEASES, {"metadata": {"name": "train", "labels": label}})
    start().poll()
    assert training.asked("PUT", PODS) == []
    assert len(training.asked("DELETE", POD)) == 1


def test_pod_moves_after_a_time_although_the_run_has_not_saved(
    start: Start, training: FakeKubernetes, capsys: pytest.CaptureFixture[str]
) -> None:
    training.put(PODS, a_pod(saves_since=301))
    start().poll()
    assert len(training.asked("DELETE", POD)) == 1
    [said] = [line for line in lines(capsys) if line["message"] == "delete"]
    assert said["reason"].endswith("not saved within 300 s: train")


def test_node_that_recovers_takes_the_request_back(start: Start, training: FakeKubernetes) -> None:
    training.put(PODS, a_pod(saves_since=10))
    training.put(NODES, a_node())
    reaper = start()
    reaper.poll()
    [withdrawn] = training.asked("PUT", f"{POD}/status")
    assert [each["status"] for each in withdrawn["status"]["conditions"]] == ["False"]
    seen(reaper, training)
    reaper.poll()
    assert len(training.asked("PUT", PODS)) == 1
    assert training.asked("DELETE", PODS) == []


def test_runs_that_the_api_server_does_not_list_now_delay_the_move(
    start: Start, training: FakeKubernetes, metrics: Metrics
) -> None:
    training.refuse[f"GET {LEASES}"] = (500, "not now")
    reaper = start()
    reaper.poll()
    assert training.asked("DELETE", PODS) == training.asked("PUT", PODS) == []
    assert value(metrics, 'ray_reaper_errors_total{operation="list runs"}') == 1
    training.refuse.clear()
    reaper.poll()
    assert len(training.asked("PUT", f"{POD}/status")) == 1


def test_two_replicas_delete_once_and_record_once(start: Start, stuck: FakeKubernetes) -> None:
    both = [start(metrics=Metrics()), start(metrics=Metrics())]
    for _ in range(2):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Reaper.poll, both))
    assert "rayml-worker" not in stuck.collections[PODS]
    assert len(stuck.asked("POST", EVENTS)) == 2, "one event on the pod, one on the RayCluster"


def test_what_was_seen_is_read_again_before_it_is_acted_on(start: Start, stuck: FakeKubernetes) -> None:
    reaper = start()
    stuck.put(NODES, a_node())
    reaper.poll()
    assert stuck.asked("GET", f"{NODES}/{NODE}") == [{}]
    assert stuck.asked("DELETE", PODS) == []


def test_another_pod_of_the_same_name_is_left_alone(start: Start, stuck: FakeKubernetes) -> None:
    reaper = start()
    another = a_pod()
    another["metadata"]["uid"] = "another"
    stuck.put(PODS, another)
    reaper.poll()
    assert stuck.asked("DELETE", PODS) == []


@pytest.mark.parametrize("status", [404, 409])
def test_pod_that_is_gone_or_changed_meanwhile_is_no_error(
    start: Start, stuck: FakeKubernetes, metrics: Metrics, status: int
) -> None:
    stuck.refuse[f"DELETE {POD}"] = (status, "meanwhile")
    reaper = start()
    reaper.poll()
    assert "errors_total" not in "".join(line for line in metrics.render().splitlines() if line.endswith(" 1"))
    stuck.refuse.clear()
    reaper.poll()
    assert len(stuck.asked("DELETE", PODS)) == 2, "the next check tries again"


def test_refused_deletion_is_counted_and_not_repeated_at_once(
    start: Start, stuck: FakeKubernetes, metrics: Metrics, now: SimpleNamespace
) -> None:
    stuck.refuse[f"DELETE {POD}"] = (403, "forbidden")
    reaper = start()
    for _ in range(3):
        reaper.poll()
    assert len(stuck.asked("DELETE", PODS)) == 1
    assert value(metrics, 'ray_reaper_errors_total{operation="delete"}') == 1
    now.monotonic = lambda: time.monotonic() + 6
    reaper.poll()
    assert len(stuck.asked("DELETE", PODS)) == 2


def test_deletion_succeeds_without_its_events(start: Start, stuck: FakeKubernetes, metrics: Metrics) -> None:
    stuck.refuse[f"POST {EVENTS}"] = (403, "forbidden")
    start().poll()
    assert value(metrics, 'ray_reaper_deletions_total{action="force-delete"}') == 1
    assert value(metrics, 'ray_reaper_errors_total{operation="event"}') == 2


def test_pod_of_a_job_is_marked_as_failed_because_of_its_node_first(start: Start, stuck: FakeKubernetes) -> None:
    """A Job with a podFailurePolicy keeps its finalizer on a deleted pod until the pod has a final phase."""
    supervisor = a_pod(name="train", asked=20, labels={"ray-on-hyperpod/submitter": "true"})
    supervisor["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    ready = {"type": "Ready", "status": "False"}
    supervisor["status"] = {"phase": "Running", "conditions": [ready, {"type": "DisruptionTarget", "status": "False"}]}
    stuck.put(PODS, supervisor)
    start().poll()
    [said] = stuck.asked("PUT", f"{PODS}/train/status")
    assert said["metadata"]["resourceVersion"] == "1"
    assert said["status"]["phase"] == "Failed"
    kept, disrupted = said["status"]["conditions"]
    assert kept == ready
    assert (disrupted["type"], disrupted["status"]) == ("DisruptionTarget", "True")
    [deletion] = stuck.asked("DELETE", f"{PODS}/train")
    assert deletion["preconditions"]["resourceVersion"] == "2", "the version after the status update"
    assert stuck.asked("PUT", POD) == [], "no Job counts Ray's pods, so their status stays"


@pytest.mark.parametrize("counted", [False, True], ids=["Ray's", "a Job's"])
@pytest.mark.parametrize(
    ("asked", "node", "deletes", "forces"),
    [
        (None, a_node(health=REPLACE), True, False),
        (None, a_node(ready="Unknown", since=60, health=REPLACE), True, False),
        (1, LOST, False, False),
        (20, LOST, True, True),
        (60, a_node(health=REPLACE), True, True),
        (60, None, True, True),
    ],
    ids=["moves", "moves off a silent node", "young", "on a lost node", "overdue", "node is gone"],
)
def test_only_a_pod_that_is_forced_out_and_that_a_job_counts_is_marked_as_failed(
    start: Start,
    kubernetes: FakeKubernetes,
    asked: float | None,
    node: Object | None,
    *,
    counted: bool,
    deletes: bool,
    forces: bool,
) -> None:
    """The Job of a pod that ends in order must count the pod's own exit code, and Failed would hide it."""
    pod = a_pod(name="one", asked=asked, labels={"ray-on-hyperpod/submitter": "true"} if counted else None)
    pod["status"] = {"phase": "Running"}
    if counted:
        pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    kubernetes.put(PODS, pod)
    if node:
        kubernetes.put(NODES, node)
    start().poll()
    marked = [body["status"]["phase"] for body in kubernetes.asked("PUT", f"{PODS}/one/status")]
    assert marked == (["Failed"] if counted and forces else [])
    deletions = kubernetes.asked("DELETE", f"{PODS}/one")
    assert [options.get("gracePeriodSeconds") for options in deletions] == ([0 if forces else None] if deletes else [])


def test_dry_run_changes_nothing_and_reports_once(
    start: Start, stuck: FakeKubernetes, capsys: pytest.CaptureFixture[str]
) -> None:
    reaper = start(dry_run=True)
    for _ in range(3):
        reaper.poll()
    assert {(method, path) for method, path, _ in stuck.requests if method != "GET"} == {("POST", REVIEWS)}
    [said] = [line for line in lines(capsys) if line["message"].startswith("dry run")]
    assert (said["message"], said["pod"]) == ("dry run: would force-delete", "rayml-worker")


@pytest.mark.parametrize("permission", PERMISSIONS, ids=lambda permission: f"{permission.verb} {permission.resource}")
def test_missing_permission_is_named_and_nothing_is_done(
    start: Start, stuck: FakeKubernetes, permission: module.Permission
) -> None:
    what = f"{permission.verb} {permission.resource}"
    stuck.forbidden = {what}
    reaper = start()
    reaper.poll()
    assert reaper.blocking_reason() == f"the service account may not {what}"
    assert stuck.asked("DELETE", PODS) == []


def test_permission_that_comes_later_is_noticed(start: Start, stuck: FakeKubernetes, now: SimpleNamespace) -> None:
    stuck.forbidden = {"delete pods"}
    reaper = start()
    reaper.poll()
    stuck.forbidden = set()
    now.monotonic = lambda: time.monotonic() + 6
    reaper.poll()
    assert reaper.blocking_reason() == ""
    assert len(stuck.asked("DELETE", PODS)) == 1


def test_only_what_is_needed_is_asked_for(start: Start, kubernetes: FakeKubernetes) -> None:
    start().poll()
    reviews = [body["spec"]["resourceAttributes"] for body in kubernetes.asked("POST", REVIEWS)]
    assert {review.get("namespace") for review in reviews if review["resource"] == "nodes"} == {None}
    assert {review.get("namespace") for review in reviews if review["resource"] != "nodes"} == {"ray"}


@pytest.fixture
def page(metrics: Metrics) -> Iterator[Callable[[str], tuple[int, str]]]:
    """Return a function that requests a page from a started reaper's HTTP server."""
    trouble = {"/healthz": "", "/readyz": "not yet"}
    server = serve(":0", metrics, {path: partial(str, text) for path, text in trouble.items()})

    def ask(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}") as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    yield ask
    server.shutdown()
    server.server_close()


def test_probes_report_what_is_wrong(page: Callable[[str], tuple[int, str]]) -> None:
    assert page("/healthz") == (200, "ok")
    assert page("/readyz") == (503, "not yet")
    assert page("/other")[0] == 404


def test_metrics_exist_before_anything_happened(
    page: Callable[[str], tuple[int, str]], start: Start, kubernetes: FakeKubernetes
) -> None:
    start()
    status, text = page("/metrics")
    assert status == 200
    assert 'ray_reaper_deletions_total{action="force-delete"} 0' in text
    assert "# TYPE ray_reaper_stuck_pods gauge" in text


def test_reaper_whose_check_hangs_is_not_live_and_one_without_watch_answers_is_not_ready(
    start: Start, now: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaper = start()
    reaper.poll()
    assert (reaper.stall(), reaper.blocking_reason()) == ("", "")
    now.monotonic = lambda: time.monotonic() + 61
    assert "last look was 6" in reaper.stall()
    monkeypatch.setattr(module, "_DEAF_SECONDS", -1.0)
    assert reaper.blocking_reason().startswith("no answer: watch ")
