"""The sleeper on a cluster, against a fake API server, a fake head and a fake function: sleep, wake, and its doubts."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from controllers import busy_gpus
from controllers import sleeper as module
from controllers.group_users import SleepingGroup, TokenSecret
from controllers.lease import STATE
from controllers.sleeper import PERMISSIONS, GroupMetrics, Sleeper
from tests.support import fake_exporters
from tests.support.fake_exporters import FakeExporter
from tests.support.fake_kubernetes import (
    ALL_PODS,
    EVENTS,
    JOBS,
    NODES,
    RAY_CLUSTERS,
    REVIEWS,
    SECRETS,
    FakeKubernetes,
    Object,
)
from tests.support.fake_ray import FakeJob, FakeRay
from tests.support.sleeping_group import (
    COUNT,
    LABEL,
    LEASES,
    OWN,
    OWN_PODS,
    SleepingCluster,
    a_node,
    a_pod,
    a_ray_cluster,
    a_run,
    with_token,
)
from tests.support.waiting import wait_until

AFTER = 300
STEP = 100
GROUP = {
    "group": "gpu",
    "count": COUNT,
    "min": 0,
    "after_seconds": AFTER,
    "workers": [{"cluster": "rayml", "name": "gpu-workers", "replicas": COUNT, "min_replicas": 1}],
}
REQUEST = "hand.ray-on-hyperpod/gpu"
Start = Callable[..., Sleeper]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Move the sleeper's clocks by what a test adds to `later`; the Lease's clock is the real one."""
    made = SimpleNamespace(later=0.0)
    made.time = lambda: time.time() + made.later
    made.monotonic = lambda: time.monotonic() + made.later
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(busy_gpus, "time", made)
    return made


@pytest.fixture
def cluster(kubernetes: FakeKubernetes, ray: FakeRay) -> SleepingCluster:
    return SleepingCluster(kubernetes, ray.host)


@pytest.fixture
def start(cluster: SleepingCluster) -> Iterator[Start]:
    """Start a sleeper; return it once it has listed all that it watches."""
    made: list[Sleeper] = []

    def started(holder: str = "sleeper-0", **options: Any) -> Sleeper:
        groups = [SleepingGroup.read(json.dumps(GROUP | options.pop("group", {})))]
        groups += [SleepingGroup.read(json.dumps(GROUP | each)) for each in options.pop("others", [])]
        given: dict[str, Any] = {"tokens": {}, "dry_run": False} | options
        sleeper = Sleeper(
            cluster.kubernetes.cluster,
            GroupMetrics(),
            groups,
            cluster.function,
            function="counts",
            namespace="ray",
            own_namespace=OWN,
            holder=holder,
            **given,
        )
        sleeper.start()
        made.append(sleeper)
        wait_until(lambda: not sleeper._users.deaf, "its first lists")
        return sleeper

    yield started
    for each in made:
        each.stop()


@pytest.fixture
def world(cluster: SleepingCluster, ray: FakeRay, clock: SimpleNamespace, start: Start) -> "World":
    return World(cluster, ray, clock, start)


class World:
    """A sleeper that polls, and a cluster that follows."""

    def __init__(self, cluster: SleepingCluster, ray: FakeRay, clock: SimpleNamespace, start: Start) -> None:
        self.cluster = cluster
        self.ray = ray
        self.clock = clock
        self.new = start
        self.restarts = False
        self._options: dict[str, Any] = {}
        self._sleeper: Sleeper | None = None

    @property
    def sleeper(self) -> Sleeper:
        if self._sleeper is None:
            self._sleeper = self.new(**self._options)
        return self._sleeper

    def begin(self, **options: Any) -> None:
        """Start the sleeper with other options, also after restarts."""
        self._options = options
        self._sleeper = self.new(**options)

    def step(self, seconds: float = STEP) -> None:
        """Let time pass, poll once, and let nodes and pods follow; then the sleeper may be restarted."""
        self.clock.later += seconds
        assert self.sleeper.poll(threading.Event())
        self.follow()
        if self.restarts:
            self.sleeper.stop()
            self._sleeper = None

    def follow(self) -> None:
        self.cluster.follow()
        self.sync()

    def sync(self) -> None:
        """Wait until the sleeper's watches show what there is."""
        expected = {key: json.dumps(pod["spec"]) for key, pod in self.cluster.kubernetes.collections[ALL_PODS].items()}
        users = self.sleeper._users

        def shown() -> bool:
            nodes = set(users._nodes.snapshot()) | users._nodes.unreadable()
            pods = set(users._pods.snapshot()) | users._pods.unreadable()
            runs = set(users._runs.snapshot()) | users._runs.unreadable()
            live = users._live.snapshot().get("rayml")
            items = self.cluster.kubernetes.collections
            return (
                nodes == set(items[NODES])
                and pods == set(expected)
                and runs == set(items[JOBS])
                and all(
                    users._pods.snapshot()[key].node == pod["spec"].get("nodeName", "")
                    for key, pod in items[ALL_PODS].items()
                    if key in users._pods.snapshot()
                )
                and (live is None or live.replicas.get("gpu-workers") == self.cluster.replicas)
            )

        wait_until(shown, "the watches to show the cluster")

    def steps(self, number: int) -> None:
        for _ in range(number):
            self.step()

    def fall_asleep(self) -> None:
        """Let idle time pass until the group sleeps."""
        self.steps(AFTER // STEP + 4)
        assert self.cluster.asleep

    def value(self, name: str) -> float:
        [line] = [
            line
            for line in self.sleeper._metrics.render().splitlines()
            if line.startswith((f"{name} ", f'{name}{{group="gpu"}} '))
        ]
        return float(line.rpartition(" ")[2])

    def events(self) -> list[str]:
        return [f"{body['reason']}: {body['message']}" for body in self.cluster.kubernetes.asked("POST", EVENTS)]


def test_idle_group_loses_its_workers_then_its_nodes_and_a_run_wakes_both(world: World) -> None:
    world.steps(AFTER // STEP)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT), "idle for less than `after`"
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, 0), "workers end before nodes go"
    world.step()
    assert world.cluster.asleep
    assert world.cluster.function.changes == [{"gpu": 0}]
    world.steps(3)
    assert (world.value("ray_sleeper_asleep"), world.value("ray_sleeper_target_nodes")) == (1, 0)
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    assert world.cluster.function.changes == [{"gpu": 0}, {"gpu": COUNT}]
    world.steps(AFTER // STEP + 4)
    assert world.cluster.function.changes == [{"gpu": 0}, {"gpu": COUNT}], "it stays awake while the run is there"
    assert (world.value("ray_sleeper_wakes_total"), world.value("ray_sleeper_sleeps_total")) == (1, 1)
    assert (world.value("ray_sleeper_asleep"), world.value("ray_sleeper_target_nodes")) == (0, COUNT)
    found = world.events()
    assert [event.partition(":")[0] for event in found] == ["GroupSleeps", "GroupSleeps", "GroupWakes", "GroupWakes"]
    assert "instance group gpu wakes, 0 to 2 nodes: used by run train-7" in found[2]


def saved(world: World) -> Any:
    return json.loads(world.cluster.kubernetes.collections[LEASES]["sleeper"]["metadata"]["annotations"][STATE])


def test_lease_says_since_when_the_group_sleeps_and_what_wakes_it(world: World) -> None:
    world.step()
    assert (saved(world)["asleep"], saved(world)["woken"]) == ({}, {})
    world.fall_asleep()
    since = saved(world)["asleep"]["gpu"]
    assert abs(since - world.clock.time()) < 5 * STEP
    world.restarts = True
    world.steps(2)
    assert (saved(world)["asleep"], saved(world)["woken"]) == ({"gpu": since}, {})
    world.cluster.function.refused = "the cluster is Updating"
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    world.steps(2)
    assert (saved(world)["asleep"], saved(world)["woken"]) == ({"gpu": since}, {"gpu": "used by run train-7"})
    world.cluster.function.refused = ""
    world.steps(3)
    assert (saved(world)["asleep"], saved(world)["woken"]) == ({}, {"gpu": "used by run train-7"})
    world.cluster.kubernetes.put(JOBS, a_run(type="Complete", status="True"))
    world.sync()
    world.fall_asleep()
    assert saved(world)["woken"] == {}


def hours(world: World) -> dict[str, float]:
    """Return the node-seconds of the group by state, in steps of the clock."""
    lines = [line for line in world.sleeper._metrics.render().splitlines() if line.startswith("ray_sleeper_node_s")]
    return {line.split('"')[3]: round(float(line.rpartition(" ")[2]) / STEP, 1) for line in lines}


def test_node_seconds_are_counted_as_used_idle_or_asleep(world: World) -> None:
    world.cluster.kubernetes.put(JOBS, a_run())
    world.steps(3)
    assert hours(world) == {"used": 2 * COUNT, "idle": 0, "asleep": 0}, "nobody looked before the first look"
    del world.cluster.kubernetes.collections[JOBS]["train-7"]
    world.sync()
    world.step()
    assert hours(world) == {"used": 3 * COUNT, "idle": 0, "asleep": 0}
    before = hours(world)
    world.fall_asleep()
    world.step()
    asleep = hours(world)
    # `after` and the end of its workers: from the look without a run to the one that lowered the nodes.
    assert asleep["idle"] == (AFTER // STEP + 1) * COUNT
    assert sum(asleep.values()) - sum(before.values()) == (AFTER // STEP + 5) * COUNT
    assert asleep["used"] == before["used"]


def test_node_seconds_of_nodes_that_stay_are_idle(world: World) -> None:
    world.begin(group={"min": 1})
    world.steps(AFTER // STEP + 5)
    before = hours(world)
    world.step()
    after = hours(world)
    assert {state: round(after[state] - before[state], 1) for state in after} == {
        "used": 0,
        "idle": 1,
        "asleep": COUNT - 1,
    }


def test_node_seconds_without_a_known_target_are_not_counted(world: World) -> None:
    world.cluster.kubernetes.put(JOBS, a_run())
    world.steps(2)
    before = hours(world)
    world.cluster.function.fails = True
    world.steps(8)
    lost = hours(world)
    assert sum(lost.values()) < sum(before.values()) + 8 * COUNT


def test_a_successor_counts_node_seconds_from_its_own_first_look(world: World) -> None:
    world.steps(3)
    world.sleeper.stop()
    world.begin(holder="sleeper-1")
    world.step()
    assert hours(world) == {"used": 0, "idle": 0, "asleep": 0}


def test_nodes_are_wanted_while_the_group_is_used_and_no_longer(world: World) -> None:
    world.fall_asleep()
    assert world.value("ray_sleeper_wanted_nodes") == 0
    world.cluster.function.refused = "an update is under way"
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    world.steps(3)
    assert world.value("ray_sleeper_wanted_nodes") == COUNT
    assert world.value("ray_sleeper_target_nodes") == 0
    a_pause(world.cluster, world.ray)
    wait_until(lambda: world.sleeper._users._live.snapshot()["rayml"].suspended, "the watch to show the pause")
    world.step()
    assert world.value("ray_sleeper_wanted_nodes") == 0, "a pause leaves the group alone"


def test_nodes_are_wanted_within_hours_even_if_the_function_fails(world: World) -> None:
    world.begin(group={"hours": "Mon-Sun 00:00-24:00 UTC"})
    world.cluster.function.fails = True
    world.steps(2)
    assert world.value("ray_sleeper_wanted_nodes") == COUNT


def test_a_doubt_wants_no_node(world: World, ray: FakeRay) -> None:
    world.fall_asleep()
    ray.away = True
    world.steps(2)
    assert world.value("ray_sleeper_wanted_nodes") == 0


def test_each_step_is_taken_by_another_sleeper(world: World) -> None:
    world.restarts = True
    world.fall_asleep()
    assert world.cluster.function.changes == [{"gpu": 0}]
    world.cluster.kubernetes.put(JOBS, a_run())
    world.steps(2)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    world.cluster.kubernetes.put(JOBS, a_run(type="Complete", status="True"))
    world.fall_asleep()
    assert world.cluster.function.changes == [{"gpu": 0}, {"gpu": COUNT}, {"gpu": 0}]


def test_idle_time_that_nobody_watched_does_not_count(world: World) -> None:
    world.steps(AFTER // STEP)
    world.step(AFTER)
    world.steps(AFTER // STEP - 1)
    assert world.cluster.replicas == COUNT


def test_min_nodes_and_as_many_workers_stay(world: World) -> None:
    world.begin(group={"min": 1})
    world.steps(AFTER // STEP + 4)
    assert (world.cluster.target, world.cluster.replicas) == (1, 1)
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


def test_hours_wake_a_group_that_nothing_uses(world: World) -> None:
    world.fall_asleep()
    world.sleeper.stop()
    world.begin(group={"hours": "Mon-Sun 00:00-24:00 UTC"})
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    world.steps(AFTER // STEP + 4)
    assert world.cluster.target == COUNT


def ask(world: World, request: str | None) -> None:
    """Annotate the RayCluster as `ops wake` and `ops sleep` do, and wait until the sleeper sees it."""
    item = json.loads(json.dumps(world.cluster.kubernetes.collections[RAY_CLUSTERS]["rayml"]))
    item["metadata"]["annotations"] = {"other": "stays"} | ({REQUEST: request} if request else {})
    world.cluster.kubernetes.put(RAY_CLUSTERS, item)
    users = world.sleeper._users
    wait_until(lambda: (found := users.live("rayml")) and found.hands.get("gpu") == request, "the request to be seen")


def request(world: World) -> str | None:
    found = world.cluster.kubernetes.collections[RAY_CLUSTERS]["rayml"]["metadata"]["annotations"]
    assert found["other"] == "stays"
    value: str | None = found.get(REQUEST)
    return value


def moment(world: World, seconds: float) -> str:
    return datetime.fromtimestamp(world.clock.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_group_that_is_put_to_sleep_by_hand_does_not_wait_for_after(world: World) -> None:
    world.step()
    ask(world, f"asleep since {moment(world, 0)}")
    world.steps(2)
    assert world.cluster.asleep
    assert any("put to sleep by hand at " in event for event in world.events())
    world.steps(5)
    assert world.cluster.asleep
    assert request(world), "it holds until something uses the group"


def test_request_to_sleep_holds_within_the_hours_until_they_begin_again(world: World) -> None:
    day = 86_400
    # At noon, so that the hours do not begin meanwhile.
    world.clock.later = day * 1.5 - world.clock.time() % day
    world.begin(group={"hours": "Mon-Sun 00:00-24:00 UTC"})
    world.step()
    ask(world, f"asleep since {moment(world, 0)}")
    world.steps(5)
    assert world.cluster.asleep
    world.step(day / 2)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    assert request(world) is None


def test_user_ends_a_request_to_sleep_for_good(world: World) -> None:
    world.step()
    ask(world, f"asleep since {moment(world, 0)}")
    world.steps(2)
    assert world.cluster.asleep
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    assert request(world) is None
    world.cluster.kubernetes.put(JOBS, a_run(type="Complete", status="True"))
    world.sync()
    world.steps(AFTER // STEP)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT), "`after` counts again"


def test_request_to_sleep_overrides_no_user_and_no_doubt(world: World, ray: FakeRay) -> None:
    world.cluster.put_pod(a_pod("notebook-0", namespace="team", node="gpu-1"))
    world.step()
    ask(world, f"asleep since {moment(world, 0)}")
    world.step()
    assert (world.cluster.target, world.cluster.replicas, request(world)) == (COUNT, COUNT, None)
    del world.cluster.kubernetes.collections[ALL_PODS]["team/notebook-0"]
    world.sync()
    asked = f"asleep since {moment(world, 0)}"
    ask(world, asked)
    ray.away = True
    world.steps(2)
    assert (world.cluster.target, world.cluster.replicas, request(world)) == (COUNT, COUNT, asked)
    ray.away = False
    world.steps(2)
    assert world.cluster.asleep, "a doubt only delays it"


def test_doubt_does_not_wake_within_its_hours_what_was_put_to_sleep_by_hand(world: World, ray: FakeRay) -> None:
    world.clock.later = 86_400 * 1.5 - world.clock.time() % 86_400
    world.begin(group={"hours": "Mon-Sun 00:00-24:00 UTC"})
    world.step()
    ask(world, f"asleep since {moment(world, 0)}")
    world.steps(2)
    assert world.cluster.asleep
    ray.away = True
    world.steps(2)
    assert world.cluster.asleep


def test_group_that_is_woken_by_hand_stays_awake_until_then_and_for_after(world: World) -> None:
    world.fall_asleep()
    ask(world, f"awake until {moment(world, 10.5 * STEP)}")
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    assert any("wakes, 0 to 2 nodes: woken by hand until " in event for event in world.events())
    world.steps(9)
    assert request(world)
    world.steps(AFTER // STEP)
    assert request(world) is None
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    world.steps(3)
    assert world.cluster.asleep


def test_doubt_does_not_keep_a_group_from_being_woken_by_hand(world: World, ray: FakeRay) -> None:
    world.fall_asleep()
    ray.away = True
    ask(world, f"awake until {moment(world, 10 * STEP)}")
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


def test_who_wakes_a_group_by_hand_between_decision_and_release_keeps_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.steps(AFTER // STEP)
    ask_users = world.sleeper._users.users_now

    def woken_meanwhile(group: SleepingGroup, now: float, *, on_nodes: bool) -> list[str]:
        item = world.cluster.kubernetes.collections[RAY_CLUSTERS]["rayml"]
        item["metadata"]["annotations"] = {REQUEST: f"awake until {moment(world, 10 * STEP)}"}
        return ask_users(group, now, on_nodes=on_nodes)

    monkeypatch.setattr(world.sleeper._users, "users_now", woken_meanwhile)
    world.step()
    assert world.cluster.replicas == COUNT


def test_request_that_is_newer_than_the_one_that_ended_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.step()
    ask(world, f"awake until {moment(world, STEP / 2)}")
    newer = f"asleep since {moment(world, STEP)}"
    poll = world.sleeper._users.poll

    def poll_then_ask() -> Any:
        found = poll()
        ask(world, newer)
        return found

    monkeypatch.setattr(world.sleeper._users, "poll", poll_then_ask)
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    world.step()
    assert request(world) == newer


def test_unreadable_request_is_a_doubt(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.step()
    ask(world, "awake for two hours")
    world.steps(AFTER // STEP + 4)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    assert request(world), "a person mends it"
    assert "annotation hand.ray-on-hyperpod/gpu: 'awake for two hours' is invalid" in capsys.readouterr().out
    ask(world, None)
    world.fall_asleep()
    ask(world, "awake for two hours")
    world.steps(3)
    assert world.cluster.asleep, "it wakes no group"


def test_requests_of_a_suspended_ray_cluster_stay(world: World) -> None:
    world.step()
    item = world.cluster.kubernetes.collections[RAY_CLUSTERS]["rayml"]
    item["spec"]["suspend"] = True
    asked = f"awake until {moment(world, -60)}"
    ask(world, asked)
    world.steps(2)
    assert request(world) == asked


def test_dry_run_keeps_requests(world: World) -> None:
    world.begin(dry_run=True)
    world.step()
    asked = f"awake until {moment(world, -60)}"
    ask(world, asked)
    world.steps(2)
    assert request(world) == asked


def drivers(cluster: SleepingCluster, ray: FakeRay) -> None:
    ray.drivers.append({"type": "DRIVER", "job_id": "02000000", "submission_id": None, "status": "RUNNING"})


def a_job(cluster: SleepingCluster, ray: FakeRay) -> None:
    ray.jobs["raysubmit_1"] = FakeJob({"entrypoint": "x"}, status="PENDING")


def an_application(cluster: SleepingCluster, ray: FakeRay) -> None:
    ray.applications = {"chat": {"status": "RUNNING"}}


def a_waiting_run(cluster: SleepingCluster, ray: FakeRay) -> None:
    cluster.kubernetes.put(JOBS, a_run())


def a_notebook_that_waits(cluster: SleepingCluster, ray: FakeRay) -> None:
    cluster.put_pod(a_pod("notebook-0", namespace="team", selects="gpu"))


def a_notebook_by_affinity(cluster: SleepingCluster, ray: FakeRay) -> None:
    expressions = [{"key": LABEL, "operator": "In", "values": ["gpu"]}, {"key": "other", "operator": "Exists"}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    cluster.put_pod(a_pod("notebook-0", namespace="team", affinity=affinity))


def a_notebook_that_names_two_groups(cluster: SleepingCluster, ray: FakeRay) -> None:
    expression = {"key": LABEL, "operator": "In", "values": ["another", "gpu"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    cluster.put_pod(a_pod("notebook-0", namespace="team", affinity=affinity))


def a_run_that_has_not_ended(cluster: SleepingCluster, ray: FakeRay) -> None:
    cluster.kubernetes.put(JOBS, a_run(type="Failed", status="False"))


def a_worker_of_another_ray_cluster(cluster: SleepingCluster, ray: FakeRay) -> None:
    cluster.put_pod(a_pod("rayjob-w", owner="RayCluster/rayjob-x1", role="worker", selects="gpu"))


def a_false_worker(cluster: SleepingCluster, ray: FakeRay) -> None:
    cluster.put_pod(a_pod("worker-0", namespace="team", owner="RayCluster/rayml", role="worker", selects="gpu"))


USERS = {
    "driver 02000000 on rayml": drivers,
    "job raysubmit_1 on rayml": a_job,
    "Serve application chat on rayml": an_application,
    "run train-7": a_waiting_run,
    "pod team/notebook-0": a_notebook_that_waits,
    "pod ray/rayjob-w": a_worker_of_another_ray_cluster,
    "pod team/worker-0": a_false_worker,
}
WAKING = [
    *USERS.items(),
    ("pod team/notebook-0", a_notebook_by_affinity),
    ("pod team/notebook-0", a_notebook_that_names_two_groups),
    ("run train-7", a_run_that_has_not_ended),
]


@pytest.mark.parametrize(("words", "use"), WAKING, ids=[use.__name__ for _, use in WAKING])
def test_each_user_wakes_the_group_and_keeps_it_awake(
    world: World, ray: FakeRay, words: str, use: Callable[[SleepingCluster, FakeRay], None]
) -> None:
    world.fall_asleep()
    use(world.cluster, ray)
    world.sync()
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    assert any(f"used by {words}" in event for event in world.events())
    world.steps(AFTER // STEP + 4)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


def test_a_pod_on_a_node_keeps_the_group_awake(world: World) -> None:
    world.cluster.put_pod(a_pod("notebook-0", namespace="team", node="gpu-1"))
    world.steps(AFTER // STEP + 4)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("elsewhere", namespace="team", node="system"),
        a_pod("waits-elsewhere", namespace="team", selects="system"),
        a_pod("waits-anywhere", namespace="team"),
        a_pod("gated", namespace="team", selects="gpu", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
        {**a_pod("ended", namespace="team", node="gpu-0"), "status": {"phase": "Succeeded"}},
        {**a_pod("failed", namespace="team", selects="gpu"), "status": {"phase": "Failed"}},
        a_pod(
            "could-run-elsewhere",
            namespace="team",
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["gpu"]}]},
                            {"matchExpressions": [{"key": "other", "operator": "Exists"}]},
                        ]
                    }
                }
            },
        ),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_what_does_not_use_the_group_lets_it_sleep(world: World, ray: FakeRay, pod: Object) -> None:
    world.cluster.put_pod(pod)
    world.cluster.kubernetes.put(JOBS, a_run("done", type="Failed", status="True"))
    world.cluster.kubernetes.put(JOBS, a_run("other", cluster="another"))
    ray.jobs["raysubmit_1"] = FakeJob({"entrypoint": "x"}, status="SUCCEEDED")
    world.fall_asleep()
    world.steps(3)
    assert world.cluster.asleep


def test_an_image_without_serve_lets_the_group_sleep(world: World, ray: FakeRay) -> None:
    ray.applications = None
    world.fall_asleep()


def test_a_run_that_appears_between_decision_and_release_keeps_its_workers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.steps(AFTER // STEP)
    read = world.sleeper._users.ray_cluster

    def read_then_submit(name: str) -> Object | None:
        found = read(name)
        world.cluster.kubernetes.put(JOBS, a_run())
        return found

    monkeypatch.setattr(world.sleeper._users, "ray_cluster", read_then_submit)
    world.step()
    assert world.cluster.replicas == COUNT
    assert not world.cluster.kubernetes.asked("PUT", RAY_CLUSTERS)


def test_a_ray_cluster_that_somebody_changes_meanwhile_stays_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.steps(AFTER // STEP)
    ask = world.sleeper._users.users_now

    def changed_meanwhile(*arguments: Any, **options: Any) -> list[str]:
        item = world.cluster.kubernetes.collections[RAY_CLUSTERS]["rayml"]
        item["metadata"]["resourceVersion"] = str(int(item["metadata"]["resourceVersion"]) + 1)
        return ask(*arguments, **options)

    monkeypatch.setattr(world.sleeper._users, "users_now", changed_meanwhile)
    world.step()
    assert world.cluster.replicas == COUNT
    assert 'operation="workers"' not in world.sleeper._metrics.render(), "it is no error"
    monkeypatch.undo()


def a_pause(cluster: SleepingCluster, ray: FakeRay) -> None:
    cluster.kubernetes.collections[RAY_CLUSTERS]["rayml"]["spec"]["suspend"] = True


@pytest.mark.parametrize("lowers", [False, True])
def test_ray_cluster_that_is_suspended_meanwhile_is_left_alone(
    world: World, ray: FakeRay, lowers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.steps(AFTER // STEP + lowers)
    state = world.sleeper._users.poll

    def poll_then_pause() -> Any:
        found = state()
        a_pause(world.cluster, ray)
        return found

    monkeypatch.setattr(world.sleeper._users, "poll", poll_then_pause)
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, 0 if lowers else COUNT)


def test_questions_before_nodes_go_are_as_many_for_a_thousand_nodes_as_for_two(world: World) -> None:
    """A request for each node would take longer than the Lease allows, and the nodes would never go."""
    kubernetes = world.cluster.kubernetes
    for n in range(COUNT, 1000):
        kubernetes.put(NODES, a_node(f"gpu-{n}", "gpu"))
    world.sync()
    world.steps(AFTER // STEP + 1)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, 0)
    before = len(kubernetes.asked("GET", "/api/v1/pods"))
    world.step()
    assert world.cluster.target == 0
    assert len(kubernetes.asked("GET", "/api/v1/pods")) - before <= 2


def test_head_that_falls_silent_before_the_release_keeps_its_workers(
    world: World, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.steps(AFTER // STEP)
    state = world.sleeper._users.poll

    def poll_then_silence() -> Any:
        found = state()
        ray.away = True
        return found

    monkeypatch.setattr(world.sleeper._users, "poll", poll_then_silence)
    world.step()
    assert world.cluster.replicas == COUNT


@pytest.mark.parametrize("use", [a_job, a_waiting_run])
def test_who_comes_before_the_nodes_go_keeps_them(
    world: World, ray: FakeRay, use: Callable[[SleepingCluster, FakeRay], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.steps(AFTER // STEP + 1)
    assert world.cluster.replicas == 0
    state = world.sleeper._users.poll

    def poll_then_use() -> Any:
        found = state()
        use(world.cluster, ray)
        return found

    monkeypatch.setattr(world.sleeper._users, "poll", poll_then_use)
    world.step()
    assert world.cluster.function.changes == []
    world.step()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


def test_a_pod_that_the_watch_does_not_show_yet_keeps_its_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.steps(AFTER // STEP + 1)
    state = world.sleeper._users.poll

    def poll_then_schedule() -> Any:
        found = state()
        world.cluster.put_pod(a_pod("notebook-0", namespace="team", node="gpu-0"))
        return found

    monkeypatch.setattr(world.sleeper._users, "poll", poll_then_schedule)
    world.step()
    assert world.cluster.function.changes == []


@pytest.fixture
def exporter() -> Iterator[FakeExporter]:
    with fake_exporters.serve() as fake:
        yield fake


@pytest.fixture
def watched(world: World, exporter: FakeExporter) -> World:
    """Let an exporter run on each node of the group."""
    for n in range(COUNT):
        owner, address = "DaemonSet/dcgm-exporter", exporter.host
        pod = a_pod(f"exporter-{n}", namespace="gpu-metrics", node=f"gpu-{n}", owner=owner, address=address)
        world.cluster.put_pod(pod)
    world.begin(group={"gpus": True})
    return world


def test_idle_gpus_let_the_group_sleep_and_are_asked_once_a_minute(watched: World, exporter: FakeExporter) -> None:
    for _ in range(4 * AFTER // 60):
        watched.step(15)
    assert exporter.asked <= COUNT * (AFTER // 60 + 1)
    watched.fall_asleep()


def test_a_busy_gpu_keeps_the_group_awake(watched: World, exporter: FakeExporter) -> None:
    exporter.utilisation = 3
    watched.steps(AFTER // STEP + 4)
    assert (watched.cluster.target, watched.cluster.replicas) == (COUNT, COUNT)
    exporter.utilisation = 0
    watched.fall_asleep()


def test_gpus_that_become_busy_just_before_workers_or_nodes_go_keep_them(
    watched: World, exporter: FakeExporter
) -> None:
    watched.steps(AFTER // STEP)
    watched.step(STEP - 15)
    exporter.utilisation = 3
    watched.step(15)
    assert watched.cluster.replicas == COUNT, "the answer of 15 seconds ago is too old for this step"
    watched.step(15)
    exporter.utilisation = 0
    watched.step(60)
    watched.steps(AFTER // STEP)
    assert (watched.cluster.target, watched.cluster.replicas) == (COUNT, 0)
    exporter.utilisation = 3
    watched.step(15)
    assert watched.cluster.function.changes == []


def test_busy_gpus_of_the_nodes_that_stay_wake_no_others(watched: World, exporter: FakeExporter) -> None:
    watched.begin(group={"gpus": True, "min": 1})
    watched.steps(AFTER // STEP + 4)
    assert (watched.cluster.target, watched.cluster.replicas) == (1, 1)
    exporter.utilisation = 3
    watched.steps(3)
    assert (watched.cluster.target, watched.cluster.replicas) == (1, 1)


def test_gpus_of_a_group_in_use_are_not_asked(watched: World, exporter: FakeExporter) -> None:
    watched.cluster.kubernetes.put(JOBS, a_run())
    watched.steps(AFTER // STEP + 4)
    watched.cluster.kubernetes.collections[JOBS].clear()
    watched.begin(group={"gpus": True, "hours": "Mon-Sun 00:00-24:00 UTC"})
    watched.steps(AFTER // STEP + 4)
    assert exporter.asked == 0


def silent(watched: World, exporter: FakeExporter) -> None:
    exporter.status = 503


def missing(watched: World, exporter: FakeExporter) -> None:
    del watched.cluster.kubernetes.collections[ALL_PODS]["gpu-metrics/exporter-1"]


def false_exporter(watched: World, exporter: FakeExporter) -> None:
    """Let another pod pretend to be the exporter of a node."""
    missing(watched, exporter)
    pod = a_pod("exporter-1", namespace="team", node="gpu-1", owner="DaemonSet/dcgm-exporter", address=exporter.host)
    watched.cluster.put_pod(pod)


@pytest.mark.parametrize("spoil", [silent, missing, false_exporter])
def test_exporter_that_cannot_be_asked_keeps_the_group_awake(
    watched: World, exporter: FakeExporter, spoil: Callable[[World, FakeExporter], None]
) -> None:
    spoil(watched, exporter)
    watched.sync()
    watched.steps(AFTER // STEP + 4)
    assert (watched.cluster.target, watched.cluster.replicas) == (COUNT, COUNT)


def open_shell(world: World, mark: str, node: str = "gpu-1") -> None:
    """Mark a node as `ops node shell` does."""
    item = a_node(node, "gpu")
    item["metadata"]["annotations"] = {"ray-on-hyperpod/shell-01234567": mark, "another": "x"}
    world.cluster.kubernetes.put(NODES, item)
    wait_until(lambda: world.sleeper._users._nodes.snapshot()[node].shells, "the watch to show the mark")


def in_minutes(minutes: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60 * minutes))


@pytest.mark.parametrize("until", ["", "soon"])
def test_an_open_shell_keeps_the_group_awake_until_it_is_closed(world: World, until: str) -> None:
    open_shell(world, f"{until or in_minutes(600)} ada")
    world.steps(AFTER // STEP + 4)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    world.cluster.kubernetes.put(NODES, a_node("gpu-1", "gpu"))
    wait_until(lambda: not world.sleeper._users._nodes.snapshot()["gpu-1"].shells, "the watch")
    world.fall_asleep()


def test_a_shell_counts_no_longer_than_its_mark_says(world: World) -> None:
    open_shell(world, f"{in_minutes(-1)} ada")
    world.fall_asleep()


def test_a_shell_is_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    open_shell(world, f"{in_minutes(600)} ada lovelace")
    world.step()
    assert '"reason": "used by shell of ada lovelace on node gpu-1"' in capsys.readouterr().out


def test_a_shell_on_a_node_that_stays_wakes_no_others(world: World) -> None:
    world.begin(group={"min": 1})
    world.steps(AFTER // STEP + 4)
    open_shell(world, f"{in_minutes(600)} ada", "gpu-0")
    world.steps(3)
    assert (world.cluster.target, world.cluster.replicas) == (1, 1)


def test_a_shell_that_the_watch_does_not_show_yet_keeps_its_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.steps(AFTER // STEP + 1)
    state = world.sleeper._users.poll

    def poll_then_open() -> Any:
        found = state()
        open_shell(world, f"{in_minutes(600)} ada")
        return found

    monkeypatch.setattr(world.sleeper._users, "poll", poll_then_open)
    world.step()
    assert world.cluster.function.changes == []


STAND_IN = {"group": "gpu-b", "workers": []}
IN_EITHER = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["gpu", "gpu-b"]}]}]
        }
    }
}
MINUTE = 60


@pytest.fixture
def pair(world: World) -> World:
    """Let both groups sleep, of which `gpu-b` stands in for `gpu`, for which there is no capacity."""
    world.cluster.function.targets["gpu-b"] = 0
    world.begin(group={"wake": ["gpu-b"]}, others=[STAND_IN])
    world.fall_asleep()
    world.cluster.function.current["gpu"] = 0
    return world


def use(pair: World) -> None:
    pair.cluster.kubernetes.put(JOBS, a_run())
    pair.sync()


def wait_in_vain(pair: World) -> None:
    """Let a run wait until the other group is woken."""
    use(pair)
    for _ in range(32):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": COUNT}


def work_elsewhere(pair: World) -> None:
    """Let the other group's nodes come, and the workers run there."""
    for n in range(COUNT):
        pair.cluster.kubernetes.put(NODES, a_node(f"other-{n}", "gpu-b"))
        worker = a_pod(f"worker-{n}", node=f"other-{n}", owner="RayCluster/rayml", role="worker", affinity=IN_EITHER)
        pair.cluster.put_pod(worker)
    pair.sync()


def steps_alone(pair: World, number: int) -> None:
    """Poll without a cluster that follows."""
    for _ in range(number):
        pair.clock.later += STEP
        assert pair.sleeper.poll(threading.Event())


def test_a_group_without_capacity_wakes_the_next_after_half_an_hour_and_tells_it(pair: World) -> None:
    use(pair)
    for _ in range(30):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": 0}
    assert pair.value("ray_sleeper_refused") == 0
    for _ in range(2):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": COUNT}
    assert pair.value("ray_sleeper_refused") == 1
    told = [event for event in pair.events() if event.startswith("GroupDoesNotWake")]
    assert told == [
        "GroupDoesNotWake: instance group gpu does not wake, 0 of 2 nodes after 30 minutes: gpu-b wakes, too"
    ]
    for _ in range(70):
        pair.step(MINUTE)
    told = [event for event in pair.events() if event.startswith("GroupDoesNotWake")]
    assert len(told) == 1, "the other group has its nodes"


def test_a_group_for_which_none_is_left_tells_it_and_goes_on_trying(pair: World) -> None:
    pair.cluster.function.current["gpu-b"] = 0
    wait_in_vain(pair)
    for _ in range(70):
        pair.step(MINUTE)
    told = [event for event in pair.events() if event.startswith("GroupDoesNotWake")]
    assert [event.rpartition(": ")[2] for event in told] == ["gpu-b wakes, too", "no other group is left"]
    pair.cluster.function.current.clear()
    pair.steps(2)
    assert pair.value("ray_sleeper_refused") == 0


def test_other_replicas_know_for_how_long_a_group_waits(pair: World) -> None:
    use(pair)
    pair.restarts = True
    for _ in range(30):
        pair.step(MINUTE)
    assert pair.cluster.function.targets["gpu-b"] == 0
    for _ in range(3 + 2 * AFTER // MINUTE):
        pair.step(MINUTE)
    assert pair.cluster.function.targets["gpu-b"] == COUNT
    assert len([event for event in pair.events() if event.startswith("GroupDoesNotWake")]) == 1


def test_a_group_that_is_refused_wakes_the_next_as_soon_as_a_change_is_taken(pair: World) -> None:
    pair.cluster.function.refused = "the cluster is Updating"
    use(pair)
    for _ in range(40):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": 0, "gpu-b": 0}
    pair.cluster.function.refused = ""
    for _ in range(2):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": COUNT}


def test_a_group_that_gets_its_nodes_in_time_wakes_no_other(pair: World) -> None:
    use(pair)
    for _ in range(25):
        pair.step(MINUTE)
    pair.cluster.function.current.clear()
    for _ in range(40):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": 0}


def test_a_doubt_wakes_no_other_group(pair: World, ray: FakeRay) -> None:
    ray.away = True
    for _ in range(70):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": 0, "gpu-b": 0}
    assert not [event for event in pair.events() if event.startswith("GroupDoesNotWake")]
    assert pair.value("ray_sleeper_refused") == 0


def test_the_group_that_stands_in_stays_while_workers_run_there_and_then_sleeps(pair: World) -> None:
    wait_in_vain(pair)
    work_elsewhere(pair)
    steps_alone(pair, AFTER // STEP + 6)
    assert pair.cluster.function.targets["gpu-b"] == COUNT
    # The first group's nodes come late: its workers are elsewhere.
    pair.cluster.function.current.clear()
    steps_alone(pair, AFTER // STEP + 6)
    assert pair.cluster.function.targets["gpu-b"] == COUNT
    pair.cluster.kubernetes.put(JOBS, a_run(type="Complete", status="True"))
    wait_until(lambda: pair.sleeper._users._runs.snapshot()["train-7"].ended, "the watch")
    steps_alone(pair, AFTER // STEP + 1)
    assert (pair.cluster.replicas, pair.cluster.function.targets["gpu-b"]) == (0, COUNT)
    pair.follow()
    pair.steps(2)
    assert pair.cluster.function.targets == {"gpu": 0, "gpu-b": COUNT}, "its last worker has just ended"
    pair.steps(AFTER // STEP + 2)
    assert pair.cluster.function.targets == {"gpu": 0, "gpu-b": 0}


def test_the_group_that_stood_in_for_nothing_sleeps_although_the_run_lasts(pair: World) -> None:
    wait_in_vain(pair)
    pair.cluster.function.current.clear()
    pair.steps(AFTER // STEP + 8)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": 0}


def test_workers_that_land_on_a_free_group_keep_its_nodes(pair: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_in_vain(pair)
    pair.cluster.function.current.clear()
    pair.steps(AFTER // STEP)
    poll = pair.sleeper._users.poll

    def poll_then_land() -> Any:
        found = poll()
        for n in range(COUNT):
            pair.cluster.kubernetes.put(NODES, a_node(f"other-{n}", "gpu-b"))
            pair.cluster.put_pod(
                a_pod(f"worker-{n}", node=f"other-{n}", owner="RayCluster/rayml", role="worker", affinity=IN_EITHER)
            )
        return found

    monkeypatch.setattr(pair.sleeper._users, "poll", poll_then_land)
    steps_alone(pair, 8)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": COUNT}


def test_a_pod_that_either_group_can_take_wakes_the_first(pair: World) -> None:
    pair.cluster.put_pod(a_pod("notebook-0", namespace="team", affinity=IN_EITHER))
    pair.sync()
    for _ in range(30):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": 0}
    for _ in range(2):
        pair.step(MINUTE)
    assert pair.cluster.function.targets == {"gpu": COUNT, "gpu-b": COUNT}


def test_a_pod_for_the_other_group_wakes_it_alone(pair: World) -> None:
    pair.cluster.put_pod(a_pod("notebook-0", namespace="team", selects="gpu-b"))
    pair.sync()
    pair.steps(2)
    assert pair.cluster.function.targets == {"gpu": 0, "gpu-b": COUNT}


def test_suspended_ray_cluster_is_left_alone(world: World) -> None:
    for change in ({"suspend": True}, {}):
        item = a_ray_cluster(**change)
        item["metadata"]["resourceVersion"] = "7"
        if not change:
            item["metadata"]["annotations"] = {"ray-on-hyperpod/paused": "true"}
        world.cluster.kubernetes.put(RAY_CLUSTERS, item)
        wait_until(lambda: world.sleeper._users.live("rayml").suspended, "the watch")  # type: ignore[union-attr]
        world.steps(AFTER // STEP + 4)
        world.cluster.function.targets["gpu"] = 0
        world.cluster.kubernetes.put(JOBS, a_run())
        # It reads the counts again, too.
        world.steps(8)
        assert not world.cluster.kubernetes.asked("PUT", RAY_CLUSTERS)
        assert world.cluster.function.changes == []
        world.cluster.kubernetes.collections[JOBS].clear()
        world.cluster.function.targets["gpu"] = COUNT
        world.follow()


READS = [
    ("away", lambda world: setattr(world.ray, "away", True)),
    ("no head", lambda world: world.cluster.remove_pod("rayml-head")),
    ("token refused", lambda world: setattr(world.ray, "token", "another")),
    ("jobs unreadable", lambda world: world.ray.drivers.append({"job_id": "1"})),
    ("applications unreadable", lambda world: setattr(world.ray, "applications", [1])),
    ("pod unreadable", lambda world: world.cluster.put_pod(a_pod("bad", namespace="team", nodeName=7))),
    (
        "run unreadable",
        lambda world: world.cluster.kubernetes.put(JOBS, a_run() | {"status": {"conditions": [7]}}),
    ),
    (
        "node unreadable",
        lambda world: world.cluster.kubernetes.put(
            NODES, a_node("odd", "x") | {"metadata": {"name": "odd", "labels": 7}}
        ),
    ),
    ("node unknown", lambda world: world.cluster.put_pod(a_pod("lost", namespace="team", node="nowhere"))),
]


@pytest.mark.parametrize(("what", "spoil"), READS, ids=[what for what, _ in READS])
def test_what_cannot_be_asked_keeps_the_group_awake_and_wakes_none(
    world: World, what: str, spoil: Callable[[World], object]
) -> None:
    spoil(world)
    world.steps(AFTER // STEP + 4)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


@pytest.mark.parametrize(("what", "spoil"), READS, ids=[what for what, _ in READS])
def test_what_cannot_be_asked_wakes_no_group(world: World, what: str, spoil: Callable[[World], object]) -> None:
    world.fall_asleep()
    spoil(world)
    world.steps(3)
    assert world.cluster.asleep


@pytest.mark.parametrize(
    "request_",
    [f"GET {JOBS}", f"GET {RAY_CLUSTERS}/rayml", f"GET {ALL_PODS}", f"PUT {RAY_CLUSTERS}/rayml"],
)
def test_an_api_that_fails_for_one_request_changes_nothing_of_nodes(world: World, request_: str) -> None:
    assert world.sleeper
    world.cluster.kubernetes.refuse[request_] = 500, "etcd has no leader"
    world.steps(AFTER // STEP + 4)
    assert world.cluster.function.changes == []
    world.cluster.kubernetes.refuse.clear()
    world.steps(3)
    assert world.cluster.asleep


@pytest.mark.parametrize("path", [ALL_PODS, NODES, JOBS, RAY_CLUSTERS])
def test_a_collection_that_was_never_listed_changes_nothing(
    world: World, path: str, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = world.sleeper
    [watch] = [each for each in sleeper._users._watches if each.name == f"watch {path}"]
    monkeypatch.setattr(watch, "silence", lambda: 91.0)
    for _ in range(AFTER // STEP + 4):
        clock.later += STEP
        assert sleeper.poll(threading.Event())
    assert path in sleeper.blocking_reason()
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


def test_unreadable_ray_cluster_changes_nothing(world: World) -> None:
    world.cluster.kubernetes.put(RAY_CLUSTERS, a_ray_cluster() | {"spec": {"workerGroupSpecs": [7]}})
    wait_until(world.sleeper._users._live.unreadable, "the watch")
    for _ in range(AFTER // STEP + 4):
        world.clock.later += STEP
        assert world.sleeper.poll(threading.Event())
    assert world.cluster.function.changes == []
    assert not world.cluster.kubernetes.asked("PUT", RAY_CLUSTERS)


def test_function_that_fails_is_asked_once_a_minute_and_no_node_is_assumed(world: World) -> None:
    world.cluster.function.fails = True
    for _ in range(60):
        world.step(15)
    assert world.cluster.function.changes == []
    assert len(world.cluster.function.events) <= 16
    assert world.value("ray_sleeper_asleep") == 0
    world.cluster.function.fails = False
    world.steps(3)
    assert world.cluster.asleep


def test_counts_that_cannot_be_read_any_more_are_not_assumed(world: World, ray: FakeRay) -> None:
    ray.jobs["long"] = FakeJob({"entrypoint": "x"})
    world.step()
    world.cluster.function.fails = True
    world.steps(7)
    ray.jobs["long"].end("SUCCEEDED", 0)
    world.steps(AFTER // STEP + 4)
    assert world.cluster.replicas == 0
    assert world.cluster.function.changes == []


def test_change_that_fails_is_requested_once_a_minute(world: World) -> None:
    world.steps(AFTER // STEP + 1)
    world.cluster.function.fails_to_change = True
    before = len(world.cluster.function.events)
    for _ in range(40):
        world.step(15)
    assert len(world.cluster.function.events) - before <= 11
    assert world.value("ray_sleeper_refused") == 1
    assert world.cluster.target == COUNT
    world.cluster.function.fails_to_change = False
    world.step(60)
    assert world.cluster.asleep
    assert (world.value("ray_sleeper_refused"), world.value("ray_sleeper_sleeps_total")) == (0, 1)


def test_nothing_is_refused_any_more_once_nothing_is_wanted(world: World) -> None:
    world.steps(AFTER // STEP + 1)
    world.cluster.function.refused = "the cluster is Updating"
    world.step()
    assert world.value("ray_sleeper_refused") == 1
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    world.step()
    assert world.value("ray_sleeper_refused") == 0


@pytest.mark.parametrize(
    "answer",
    [{}, {"groups": [], "refused": ""}, {"groups": {"gpu": {"target": "2", "current": 2}}, "refused": ""}],
)
def test_unusable_answers_of_the_function_change_nothing(world: World, answer: dict[str, Any]) -> None:
    world.cluster.function.answer = answer
    world.steps(AFTER // STEP + 4)
    assert world.cluster.function.changes == []


def test_refused_change_is_requested_once_a_minute_until_it_is_taken(world: World) -> None:
    world.fall_asleep()
    world.cluster.function.refused = "the cluster is Updating"
    world.cluster.kubernetes.put(JOBS, a_run())
    world.sync()
    before = len(world.cluster.function.events)
    for _ in range(40):
        world.step(15)
    assert len(world.cluster.function.events) - before <= 11
    assert (world.cluster.target, world.cluster.replicas) == (0, COUNT), "pods wait for the nodes"
    assert world.value("ray_sleeper_refused") == 1
    assert world.value("ray_sleeper_wakes_total") == 0
    world.cluster.function.refused = ""
    world.step(60)
    assert world.cluster.target == COUNT
    assert (world.value("ray_sleeper_refused"), world.value("ray_sleeper_wakes_total")) == (0, 1)


def test_function_is_asked_seldom_while_nothing_changes(world: World) -> None:
    world.fall_asleep()
    for awake in (False, True):
        if awake:
            world.cluster.kubernetes.put(JOBS, a_run())
            world.sync()
            world.step()
        before = len(world.cluster.function.events)
        for _ in range(60):
            world.clock.later += 60
            assert world.sleeper.poll(threading.Event())
        assert len(world.cluster.function.events) - before <= 7


def test_two_replicas_act_as_one_and_the_second_continues_when_the_first_ends(
    world: World, cluster: SleepingCluster, start: Start, kubernetes: FakeKubernetes
) -> None:
    first = world.sleeper
    world.steps(AFTER // STEP)
    second = start(holder="sleeper-1")
    ending = threading.Event()
    thread = threading.Thread(target=second.run, args=(ending,), daemon=True)
    before = len(kubernetes.asked("PUT", RAY_CLUSTERS))
    thread.start()
    wait_until(lambda: len(kubernetes.asked("GET", OWN_PODS)) > 1, "the second replica waits")
    assert len(kubernetes.asked("PUT", RAY_CLUSTERS)) == before
    assert cluster.function.changes == []
    first.stop()
    wait_until(lambda: cluster.replicas == COUNT and _holder(kubernetes) == "sleeper-1", "the second replica holds it")
    ending.set()
    thread.join()
    world._sleeper = second
    world.steps(3)
    assert cluster.asleep, "the second replica knows for how long the group was idle"


def _holder(kubernetes: FakeKubernetes) -> str:
    return str(kubernetes.collections[LEASES]["sleeper"]["spec"]["holderIdentity"])


def test_replica_that_cannot_read_its_lease_changes_nothing(world: World, kubernetes: FakeKubernetes) -> None:
    kubernetes.refuse[f"GET {LEASES}/sleeper"] = 500, "etcd has no leader"
    for _ in range(AFTER // STEP + 4):
        world.clock.later += STEP
        assert not world.sleeper.poll(threading.Event())
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)
    assert world.cluster.function.events == []


def test_replica_that_lost_its_lease_changes_nothing(world: World, kubernetes: FakeKubernetes) -> None:
    world.steps(AFTER // STEP)
    lease = kubernetes.collections[LEASES]["sleeper"]
    metadata = lease["metadata"] | {"resourceVersion": "99"}
    kubernetes.put(LEASES, lease | {"metadata": metadata, "spec": lease["spec"] | {"holderIdentity": "sleeper-1"}})
    assert world.value("ray_sleeper_target_nodes") == COUNT
    world.clock.later += STEP
    assert not world.sleeper.poll(threading.Event())
    assert world.cluster.replicas == COUNT
    assert world.value("ray_sleeper_target_nodes") == 0, "the holder alone says how many"


@pytest.mark.parametrize("state", ["no JSON", "[]", '{"groups": 7}', '{"groups": {"gpu": {"seen_at": "x"}}}'])
def test_unreadable_state_in_the_lease_means_that_nothing_was_idle(
    world: World, kubernetes: FakeKubernetes, state: str
) -> None:
    world.steps(AFTER // STEP)
    world.sleeper.stop()
    lease = kubernetes.collections[LEASES]["sleeper"]
    lease["metadata"]["annotations"] = {"ray-on-hyperpod/state": state}
    world.begin()
    world.steps(AFTER // STEP)
    assert world.cluster.replicas == COUNT
    world.steps(3)
    assert world.cluster.asleep


def test_dry_run_says_what_it_would_do_once_and_changes_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.begin(dry_run=True)
    world.steps(AFTER // STEP + 5)
    assert world.cluster.function.changes == []
    assert not world.cluster.kubernetes.asked("PUT", RAY_CLUSTERS)
    assert world.events() == []
    said = [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()]
    assert said.count("dry run: would release") == 1


@pytest.mark.parametrize("permission", PERMISSIONS, ids=lambda each: f"{each.verb} {each.resource}")
def test_missing_permission_is_named_and_nothing_is_done(world: World, permission: Any) -> None:
    world.cluster.kubernetes.forbidden.add(f"{permission.verb} {permission.resource}")
    assert not world.sleeper.poll(threading.Event())
    assert f"{permission.verb} {permission.resource}" in world.sleeper.blocking_reason()
    assert not world.cluster.kubernetes.collections[LEASES]
    world.cluster.kubernetes.forbidden.clear()
    assert world.sleeper.poll(threading.Event())
    assert world.sleeper.blocking_reason() == ""


def test_permissions_are_asked_for_where_they_are_needed(world: World) -> None:
    world.begin(tokens={"rayml": TokenSecret("rayml", "auth_token")})
    with_token(world.cluster, "t")
    assert world.sleeper.poll(threading.Event())
    asked = [body["spec"]["resourceAttributes"] for body in world.cluster.kubernetes.asked("POST", REVIEWS)]
    assert len(asked) == len(PERMISSIONS) + 1
    namespaces = {each["resource"]: each.get("namespace") for each in asked}
    assert namespaces == {
        **dict.fromkeys(("nodes", "pods")),
        **dict.fromkeys(("jobs", "rayclusters", "events", "secrets"), "ray"),
        **dict.fromkeys(("leases", "deployments"), OWN),
    }
    assert {each["name"] for each in asked if each["resource"] == "secrets"} == {"rayml"}


def test_head_that_wants_a_token_gets_it(world: World, ray: FakeRay) -> None:
    ray.token = "a-token"
    with_token(world.cluster, ray.token)
    world.begin(tokens={"rayml": TokenSecret("rayml", "auth_token")})
    world.fall_asleep()


@pytest.mark.parametrize("data", [{}, {"auth_token": "A"}, {"auth_token": "YQpi"}, None])
def test_head_whose_token_cannot_be_read_or_sent_keeps_the_group_awake(world: World, data: Any) -> None:
    secret = {"metadata": {"name": "rayml", "resourceVersion": "1"}, "data": data}
    world.cluster.kubernetes.put(SECRETS, secret)
    world.begin(tokens={"rayml": TokenSecret("rayml", "auth_token")})
    world.steps(AFTER // STEP + 4)
    assert (world.cluster.target, world.cluster.replicas) == (COUNT, COUNT)


def test_a_step_that_may_outlast_the_lease_is_not_begun(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.steps(AFTER // STEP)
    assert world.sleeper._lease is not None
    monkeypatch.setattr(world.sleeper._lease, "seconds_left", lambda: 44.0)
    world.step()
    assert world.cluster.replicas == COUNT
    monkeypatch.undo()
    monkeypatch.setattr(module, "time", world.clock)
    world.step()
    assert world.cluster.replicas == 0
    monkeypatch.setattr(world.sleeper._lease, "seconds_left", lambda: 44.0)
    world.step()
    assert world.cluster.function.changes == []


def test_a_missing_ray_cluster_neither_keeps_the_group_awake_nor_ends_the_sleeper(world: World) -> None:
    world.steps(AFTER // STEP)
    collections = world.cluster.kubernetes.collections
    for key in [key for key, pod in collections[ALL_PODS].items() if pod["metadata"]["namespace"] == "ray"]:
        del collections[ALL_PODS][key]
    found = collections[RAY_CLUSTERS].pop("rayml")
    wait_until(lambda: world.sleeper._users.live("rayml") is None and not _ray_pods(world), "the watch")
    for _ in range(2):
        world.clock.later += STEP
        assert world.sleeper.poll(threading.Event())
    assert world.cluster.target == 0
    world.cluster.kubernetes.put(JOBS, a_run())
    wait_until(lambda: "train-7" in world.sleeper._users._runs.snapshot(), "the watch")
    world.clock.later += STEP
    assert world.sleeper.poll(threading.Event())
    assert world.cluster.target == COUNT
    collections[RAY_CLUSTERS]["rayml"] = found


def _ray_pods(world: World) -> list[str]:
    return [key for key in world.sleeper._users._pods.snapshot() if key.startswith("ray/")]


def test_a_watch_that_ended_or_a_loop_that_hangs_is_a_stall(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.sleeper.stall() == ""
    world.clock.later += 181
    assert "181 s ago" in world.sleeper.stall()
    assert world.sleeper.poll(threading.Event())
    assert world.sleeper.stall() == ""
    monkeypatch.setattr(type(world.sleeper._users), "ended", ["watch /api/v1/pods"])
    assert world.sleeper.stall() == "ended: watch /api/v1/pods"


ARGUMENTS = [
    *("--namespace=ray", "--own-namespace=kuberay", "--function=counts", "--region=us-west-2"),
    *("--service-account=/account", "--listen=:0"),
]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--group={}"], "sleeper: '{}' is invalid"),
        ([f"--group={json.dumps(GROUP)}", "--token=rayml"], "sleeper: 'rayml' is invalid"),
        ([f"--group={json.dumps(GROUP)}"], "sleeper: 'AWS_ROLE_ARN' is not set"),
    ],
)
def test_invalid_arguments_and_a_missing_role_end_it_with_a_message(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ROLE_ARN", raising=False)
    monkeypatch.setattr("sys.argv", ["sleeper", *ARGUMENTS, *words])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert str(ended.value.code).startswith(says)


def test_worker_groups_of_others_and_larger_numbers_stay(world: World) -> None:
    item = a_ray_cluster()
    item["spec"]["workerGroupSpecs"].append({"groupName": "cpu", "replicas": 3, "minReplicas": 3, "maxReplicas": 3})
    world.cluster.kubernetes.put(RAY_CLUSTERS, item)
    world.fall_asleep()
    found = world.cluster.kubernetes.collections[RAY_CLUSTERS]["rayml"]["spec"]["workerGroupSpecs"]
    assert [(each["replicas"], each["minReplicas"], each["maxReplicas"]) for each in found] == [
        (0, 0, COUNT),
        (3, 3, 3),
    ]
    found[0] |= {"replicas": COUNT + 1, "maxReplicas": COUNT + 1}
    world.cluster.function.targets["gpu"] = 0
    world.cluster.kubernetes.put(JOBS, a_run())
    wait_until(lambda: world.sleeper._users.live("rayml").replicas["gpu-workers"] == COUNT + 1, "the watch")  # type: ignore[union-attr]
    world.clock.later += STEP
    assert world.sleeper.poll(threading.Event())
    assert world.cluster.replicas == COUNT + 1


def test_workers_that_stay_are_those_of_the_first_groups() -> None:
    workers = [
        {"cluster": "a", "name": "x", "replicas": 2, "min_replicas": 0},
        {"cluster": "b", "name": "x", "replicas": 2, "min_replicas": 0},
    ]
    group = SleepingGroup.read(json.dumps(GROUP | {"workers": workers, "min": 3, "count": 4}))
    assert group.clusters == ("a", "b")
    assert group.rule.workers == 4
    assert group.replicas(group.rule.workers_asleep) == {("a", "x"): 2, ("b", "x"): 1}
    assert replace(group.rule, min=9).workers_asleep == 4


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps(GROUP | {"hours": "always"}), json.dumps(GROUP | {"x": 1})]
)
def test_invalid_group_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid|Expecting"):
        SleepingGroup.read(text)
