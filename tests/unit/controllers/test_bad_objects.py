"""One bad object of any kind neither ends a controller, nor hides the others from it, nor is acted on.

A real API server lets only annotations, labels and custom objects be wrong; here any field of any kind is.
"""

import copy
import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Final

import pytest

from controllers import kubernetes_api
from controllers import reaper as reaper_module
from controllers.in_cluster.exporter import RunExporter
from controllers.job_decision import Limits
from controllers.job_run import SupervisedRun
from controllers.kubernetes_api import WatchCache
from controllers.lease import STATE
from controllers.reaper import Reaper
from controllers.supervision import Supervisor, TerminatedError
from controllers.telemetry import Metrics
from tests.support.fake_kubernetes import BUILDS, JOBS, LEASES, NODES, PODS, FakeKubernetes, Object
from tests.support.fake_ray import FakeRay
from tests.support.supervised_run import Supervised
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.controllers.test_exporter import a_lease
from tests.unit.controllers.test_replaced_supervisor import leave
from tests.unit.support.nodes_and_pods import NOW, REPLACE, TOLERATED, a_node, a_pod

ABSURD: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        0,
        -1,
        1e308,
        float("nan"),
        float("inf"),
        [],
        {},
        [[]],
        [None],
        [{}],
        {"": None},
        "",
        "x",
        "\x00\ud800",
    ),
    *("0000-00-00T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
)
GONE: Final = object()
FEW, MANY = 8, 80


def paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def spoilt(item: Object, draw: random.Random) -> Object:
    """Return an object with one value, also of its saved state, removed or replaced; its name stays."""
    made = copy.deepcopy(item)
    annotations = made["metadata"].get("annotations") or {}
    if STATE in annotations and draw.random() < 0.6:
        state = json.loads(annotations[STATE])
        spoil(state, draw.choice(list(paths(state))), draw)
        annotations[STATE] = draw.choice(
            (json.dumps(state), json.dumps(state), draw.choice(("", "{", "[]", "1", "null")))
        )
        return made
    spoil(made, draw.choice([path for path in paths(made) if path not in (("metadata",), ("metadata", "name"))]), draw)
    return made


def spoil(value: Any, path: tuple[Any, ...], draw: random.Random) -> None:
    *outer, last = path
    for key in outer:
        value = value[key]
    new = draw.choice((GONE, *ABSURD))
    if new is GONE:
        del value[last]
    else:
        value[last] = new


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between retries."""
    monkeypatch.setattr(kubernetes_api, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(kubernetes_api, "_LONGEST_PAUSE_SECONDS", 0.05)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the reaper's wall clock to `NOW`."""
    monkeypatch.setattr(reaper_module, "time", SimpleNamespace(time=lambda: NOW, monotonic=time.monotonic))


def a_run(name: str) -> Object:
    """Return the Lease of a run that trains, with every kind of value in its state."""
    figures = {"step": 120.0, "steps_per_second": 2.5, "goodput": 93.1}
    made = a_lease(name, progress=100, figures=figures, progress_at="2026-11-01T10:00:00+00:00")
    made["metadata"]["resourceVersion"] = "1"
    return made


@pytest.fixture
def reaper(kubernetes: FakeKubernetes, clock: None) -> Iterator[Reaper]:
    made = Reaper(
        kubernetes.cluster, Metrics(), namespace="ray", unready_seconds=TOLERATED, unwell_seconds=240, dry_run=False
    )
    yield made
    made.stop()


def started(reaper: Reaper) -> None:
    reaper.start()
    wait_until(lambda: not reaper.deafness(), "its first look")


@pytest.mark.sampled(FEW)
@pytest.mark.parametrize("kind", [PODS, NODES, LEASES])
@pytest.mark.parametrize("case", range(MANY))
def test_reaper_frees_a_stuck_pod_beside_a_bad_object_and_deletes_no_other(
    reaper: Reaper, kubernetes: FakeKubernetes, kind: str, case: int, draw: random.Random
) -> None:
    """The bad object is a pod on a lost node, its node, or a run that trains beside the stuck pod."""
    lost = a_node(name="lost", ready="Unknown", since=60)
    bad = {
        PODS: a_pod(name="bad", node="healthy", saves_since=10),
        NODES: a_node(name="bad"),
        LEASES: a_run("bad"),
    }[kind]
    kubernetes.put(PODS, a_pod(name="works", node="bad" if kind == NODES else "healthy"))
    kubernetes.put(PODS, a_pod(name="moves", node="replaced"))
    kubernetes.put(PODS, a_pod(name="stuck", node="lost", asked=60))
    for node in (lost, a_node(name="healthy"), a_node(name="replaced", health=REPLACE)):
        kubernetes.put(NODES, node)
    kubernetes.put(LEASES, a_run("train"))
    made = spoilt(bad, draw)
    kubernetes.put(kind, made)
    started(reaper)
    for _ in range(2):
        reaper.poll()
    deleted = {path.rpartition("/")[2] for method, path, _ in kubernetes.requests if method == "DELETE"}
    assert "stuck" in deleted
    assert deleted <= {"stuck", "bad"}, made
    assert "bad" not in deleted or "deletionTimestamp" in json.dumps(made), made
    assert reaper.stall() == ""


def test_run_whose_lease_cannot_be_read_counts_as_needing_a_save_until_its_time_out(
    reaper: Reaper, kubernetes: FakeKubernetes, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes.put(PODS, a_pod(saves_since=299))
    kubernetes.put(NODES, a_node(health=REPLACE))
    broken = a_run("train")
    broken["metadata"]["annotations"][STATE] = '{"answered": ["u-rayml-worker"'
    kubernetes.put(LEASES, broken)
    started(reaper)
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []
    assert "train cannot be read" in capsys.readouterr().out
    kubernetes.put(PODS, a_pod(saves_since=301))
    reaper.stop()
    again = Reaper(
        kubernetes.cluster, Metrics(), namespace="ray", unready_seconds=TOLERATED, unwell_seconds=240, dry_run=False
    )
    started(again)
    again.poll()
    again.stop()
    assert len(kubernetes.asked("DELETE", PODS)) == 1


def test_pods_of_a_node_that_cannot_be_read_are_left_alone(reaper: Reaper, kubernetes: FakeKubernetes) -> None:
    """As a node that is not there, it would be a reason to force the deletion."""
    kubernetes.put(PODS, a_pod(asked=60))
    kubernetes.put(
        NODES, a_node() | {"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": 1}]}}
    )
    started(reaper)
    reaper.poll()
    assert kubernetes.asked("DELETE", PODS) == []


@pytest.mark.sampled(FEW)
@pytest.mark.parametrize("kind", [LEASES, NODES, BUILDS])
@pytest.mark.parametrize("case", range(MANY))
def test_exporter_shows_the_others_beside_a_bad_object(
    kubernetes: FakeKubernetes, kind: str, case: int, draw: random.Random
) -> None:
    group = {"sagemaker.amazonaws.com/instance-group-name": "gpus", "node.kubernetes.io/instance-type": "ml.g5.xlarge"}
    node: Object = a_node(name="good")
    node["metadata"]["labels"] |= group
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    build: Object = {"metadata": {"name": "good", "creationTimestamp": "2026-11-01T10:00:00Z"}, "status": failed}
    for path, item in ((LEASES, a_run("good")), (NODES, node), (BUILDS, build)):
        kubernetes.put(path, item)
        if path == kind:
            bad = copy.deepcopy(item)
            bad["metadata"]["name"] = "bad"
            made = spoilt(bad, draw)
            kubernetes.put(path, made)
    kubernetes.live |= {LEASES, NODES, BUILDS}
    exporter = RunExporter(kubernetes.cluster, namespace="ray", builds="image-build", prices={"ml.g5.xlarge": 1.4})
    exporter.start()
    try:
        wait_until(lambda: "no answer" not in exporter.deafness(), "the first lists")
        text = exporter.render()
        assert exporter.deafness() == ""
    finally:
        exporter.stop()
    for series in ('ray_run_step{run="good"} 120', 'hyperpod_node_ready{node="good"', "ray_image_build_failed{build="):
        assert series in text, made
    for line in text.splitlines():
        assert line.startswith("#") or float(line.rpartition(" ")[2]) is not None


def test_watch_goes_on_after_answers_that_make_no_sense(kubernetes: FakeKubernetes) -> None:
    errors: list[str] = []
    mirror = WatchCache(
        kubernetes.cluster, PODS, lambda pod: str(pod["metadata"]["uid"]), lambda error: errors.append(str(error))
    )
    kubernetes.put(PODS, a_pod(name="old"))
    mirror.start()
    wait_until(lambda: mirror.listed, "the first list")
    events: list[Any] = [[], {"type": "ADDED"}, {"type": "ADDED", "object": None}, {"type": "ERROR", "object": 5}, 7]
    for number, event in enumerate(events):
        name = f"new-{number}"
        kubernetes.put(PODS, a_pod(name=name))

        def listed(name: str = name, event: Any = event) -> bool:
            # Again and again: the fake's end of a watch that was left may swallow an event.
            kubernetes.watched[PODS].put(event)
            return name in mirror.snapshot()

        wait_until(listed, "the next list")
    assert mirror.snapshot().keys() == {"old", *(f"new-{number}" for number in range(len(events)))}
    assert errors
    assert not mirror.ended
    mirror.stop()


def test_object_that_cannot_be_read_any_more_keeps_its_last_copy_and_is_reported_once(
    kubernetes: FakeKubernetes,
) -> None:
    errors: list[str] = []
    mirror = WatchCache(
        kubernetes.cluster, PODS, lambda pod: str(pod["metadata"]["uid"]), lambda error: errors.append(str(error))
    )
    kubernetes.live = {PODS}
    kubernetes.put(PODS, a_pod(name="one"))
    kubernetes.put(PODS, a_pod(name="two"))
    mirror.start()
    wait_until(lambda: len(mirror.snapshot()) == 2, "the pods")
    for version in ("2", "3"):
        kubernetes.put(PODS, {"metadata": {"name": "one", "resourceVersion": version}})
    wait_until(lambda: mirror.unreadable() == {"one"}, "the report")
    kubernetes.put(PODS, {"metadata": {"name": "one", "resourceVersion": "4"}})
    kubernetes.put(PODS, a_pod(name="three"))
    wait_until(lambda: "three" in mirror.snapshot(), "a later pod")
    assert mirror.snapshot()["one"] == "u-one"
    assert list(map(str, errors)) == ["one cannot be read: KeyError('uid')"]
    kubernetes.put(PODS, a_pod(name="one"))
    wait_until(lambda: not mirror.unreadable(), "its return")
    del kubernetes.collections[PODS]["one"]
    wait_until(lambda: "one" not in mirror.snapshot(), "its end")
    mirror.stop()


@pytest.fixture
def ends_at_once(kubernetes: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that lets the watches of a collection end as soon as they begin."""
    run = WatchCache.run

    def end(path: str) -> None:
        monkeypatch.setattr(WatchCache, "run", lambda mirror: None if mirror.name == f"watch {path}" else run(mirror))

    kubernetes.live |= {PODS, NODES, LEASES, JOBS, BUILDS}
    return end


@pytest.mark.parametrize("path", [PODS, NODES])
def test_reaper_is_not_live_once_a_watch_has_ended(
    reaper: Reaper, ends_at_once: Callable[[str], None], path: str
) -> None:
    ends_at_once(path)
    reaper.start()
    wait_until(reaper.stall, "its word")
    assert reaper.stall() == f"ended: watch {path}"
    reaper.stop()
    assert reaper.stall() == "", "it is stopped in order"


@pytest.mark.parametrize("path", [LEASES, NODES, BUILDS])
def test_exporter_is_not_live_once_a_watch_has_ended(
    kubernetes: FakeKubernetes, ends_at_once: Callable[[str], None], path: str
) -> None:
    ends_at_once(path)
    exporter = RunExporter(kubernetes.cluster, namespace="ray", builds="image-build")
    exporter.start()
    wait_until(lambda: exporter.deafness() == f"ended: watch {path}", "its word")
    exporter.stop()


@pytest.mark.parametrize(("path", "watch"), [(PODS, "pods"), (JOBS, "the Job"), (LEASES, "the queue")])
def test_supervisor_is_not_live_once_a_watch_has_ended(
    run: Supervised, ends_at_once: Callable[[str], None], path: str, watch: str
) -> None:
    ends_at_once(path)
    made = SupervisedRun("train", "ray", "rayml", "python train.py", "/fsx/runs", package=None, first_attempt=1)
    limits = Limits(attempts=1, stalled=1, seconds=0)
    supervisor = Supervisor(run.kubernetes.cluster, Metrics(), made, limits, "train-a")
    with ThreadPoolExecutor(1) as pool:
        code = pool.submit(supervisor.run)
        wait_until(supervisor.stall, "its word")
        assert supervisor.stall() == f"ended: the watch of {watch}"
        supervisor.ending.set()
        assert isinstance(code.exception(PATIENCE_SECONDS), TerminatedError)
    leave()


def succeeds(run: Supervised, ray: FakeRay, id: str = "train-1") -> None:
    wait_until(lambda: id in ray.jobs, f"submission of {id}")
    ray.jobs[id].end("SUCCEEDED", 0)
    assert run.exit_code() == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [PODS, JOBS, LEASES])
@pytest.mark.parametrize("case", range(30))
def test_supervisor_ends_its_run_beside_a_bad_object(
    run: Supervised, ray: FakeRay, kind: str, case: int, draw: random.Random
) -> None:
    """The bad object is another pod of the RayCluster, another Job, or an older run in the queue."""
    queue = {"ray-on-hyperpod/queue": "rayml"}
    bad: Object = {
        PODS: a_pod(name="bad") | {"status": {"phase": "Running", "podIP": "10.0.0.9"}},
        JOBS: {"metadata": {"name": "bad", "uid": "job-9", "annotations": {}, "resourceVersion": "1"}},
        LEASES: a_run("bad"),
    }[kind]
    made = spoilt(bad, draw)
    if kind == LEASES and isinstance(made["metadata"].get("labels"), dict):
        made["metadata"]["labels"] = queue
    run.kubernetes.put(kind, made)
    run.start(passes_over=1)
    succeeds(run, ray)
    assert run.logged("unexpected error") == []


@pytest.mark.parametrize(
    "state",
    ["{", "[]", '{"attempt": null}', '{"attempt": 2, "exit_code": "0"}', '{"attempt": 2, "answered": [1]}'],
)
def test_supervisor_that_cannot_read_its_own_state_neither_begins_again_nor_ends_the_run(
    run: Supervised, ray: FakeRay, state: str
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1"}
    metadata = {"name": "train", "resourceVersion": "1", "ownerReferences": [owner], "annotations": {STATE: state}}
    run.kubernetes.put(LEASES, {"metadata": metadata, "spec": {}})
    run.start()
    assert run.exit_code() == 75
    assert ray.submissions == []
    [said] = run.logged("cannot continue")
    assert "cannot be read" in said["error"]
    assert STATE in said["error"]
    lease = run.kubernetes.collections[LEASES]["train"]
    assert lease["metadata"]["annotations"][STATE] == state
    run.free_lease()
    lease["metadata"]["annotations"][STATE] = '{"attempt": 2}'
    run.start(name="train-fghij")
    succeeds(run, ray, "train-2")


def test_unexpected_error_of_a_supervisor_lets_another_one_continue(
    run: Supervised, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tests.support.supervised_run.HURRIED",
        "import sys\nfrom controllers import job_supervisor, supervision\n"
        "supervision.Supervisor._follow = lambda self: 1 // 0\n"
        "supervision._FIRST_LISTS_SECONDS = {passes_over} and 0.1\nsys.exit(job_supervisor.main())\n",
    )
    run.start()
    assert run.exit_code() == 75
    [said] = run.logged("unexpected error")
    assert "ZeroDivisionError" in said["error"]
    assert run.state.get("exit_code") is None
    monkeypatch.undo()
    run.free_lease()
    run.start(name="train-fghij")
    succeeds(run, ray)


@pytest.mark.parametrize("answer", [[], 5, None, {}, {"session_name": 5}, [{"submission_id": 5}], [None]])
@pytest.mark.parametrize("path", ["/api/version", "/api/jobs", "/api/jobs/train-1"])
def test_answer_of_ray_that_makes_no_sense_is_waited_out(
    run: Supervised, ray: FakeRay, monkeypatch: pytest.MonkeyPatch, path: str, answer: object
) -> None:
    of_ray, bad = ray.answer, [3]

    def answers(method: str, where: str, body: bytes) -> tuple[int, Any]:
        if method == "GET" and where.rstrip("/") == path and bad[0]:
            bad[0] -= 1
            return 200, answer
        return of_ray(method, where, body)

    monkeypatch.setattr(ray, "answer", answers)
    run.start()
    succeeds(run, ray)
    assert bad[0] < 3
    assert run.logged("unexpected error") == []


def test_line_of_the_job_with_a_number_that_python_refuses_ends_nothing(run: Supervised, ray: FakeRay) -> None:
    run.start()
    wait_until(lambda: "train-1" in ray.jobs, "the submission")
    ray.jobs["train-1"].output = f"checkpoint of step {'9' * 5000} written\nstep {'9' * 5000}: 1 steps/s\n"
    succeeds(run, ray)
