"""A week of virtual time: arrivals, losses, refusals and restarts around real sleepers, and what must always hold.

Only this module lets time pass. Between two instants nothing happens; at an instant, real parts (API server, KubeRay,
controllers) get the real time that they need.
"""

import heapq
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from urllib3.exceptions import HTTPError

from config import labels
from controllers.aws_api import NO_ANSWER, AwsApiError
from controllers.group_users import SleepingGroup
from controllers.kubernetes_api import ApiServer
from controllers.sleeper import GroupMetrics, Sleeper
from embedded_account.hyperpod.model import JOINED, ClusterStatus, NodeStatus
from embedded_account.hyperpod.world import Minutes
from embedded_account.kubernetes.api import KubernetesClientError
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import Object
from embedded_account.testing.cluster import pod as a_pod
from handlers.group_counts import index as function
from tests.handlers.support.clients import NO_RETRIES
from tests.handlers.support.edits import WORKERS
from tests.handlers.support.engine import Deployments
from tests.handlers.support.judging import NAME
from tests.rehearsal.kubernetes.sleep_week import cluster as parts
from tests.rehearsal.kubernetes.sleep_week.cluster import NOW, WeekBench
from tests.rehearsal.kubernetes.sleep_week.least import NodeHours, Record, node_hours
from tests.rehearsal.kubernetes.sleep_week.schedule import (
    COUNT,
    HOUR,
    MINUTE,
    MONDAY,
    WEEK,
    Deployment,
    Restart,
    Schedule,
    Work,
)
from tests.rehearsal.kubernetes.sleep_week.training import Training, place
from tests.rehearsal.kubernetes.sleep_week.virtual_time import Killed, Replica
from tests.support.fake_ray import FakeJob, FakeRay
from tests.support.waiting import wait_until

LOOKS: Final = 60.0
"""Seconds between two looks: four times the sleeper's own, and half of what it takes for a gap."""
WAITING_LOOKS: Final = 5
"""One in so many of these is also one of the replica that waits for the Lease, while it is held."""
LOOKS_MEASURED: Final = 15.0
"""Its own, in hours whose requests are counted."""
STRETCHED: Final = HOUR
"""At most, while nothing happens and nothing is about to."""
MEASURED: Final = HOUR / 3
WAKES_WITHIN: Final = 5 * MINUTE
"""After a use began and nothing hindered: two looks, a lost holder, and the pause between two requests."""
REPLACED_AFTER: Final = 30.0


@dataclass
class Hour:
    """An hour in which nothing changed: calls of the function, and requests by thread, method and collection."""

    what: str
    began: float
    calls: int
    requests: Counter[tuple[str, str, str]]


@dataclass
class Figures:
    """What a week was."""

    counts: Counter[str] = field(default_factory=Counter)
    hours: list[dict[str, Any]] = field(default_factory=list)
    most_calls: int = 0
    node_hours: NodeHours | None = None


@dataclass(frozen=True)
class Given:
    """The parts of a week: `account` is the folder of the sleeper's token, `job` the spec of a run's Job."""

    plane: ControlPlane
    bench: WeekBench
    stacks: Deployments
    ray: FakeRay
    account: Path
    job: dict[str, Any]


class Week:
    """One week; `run` lets it pass."""

    def __init__(self, schedule: Schedule, given: Given, patch: pytest.MonkeyPatch) -> None:
        self.schedule = schedule
        bench = given.bench
        self._plane, self._api = given.plane, given.plane.api
        self._bench, self._stacks, self._ray = bench, given.stacks, given.ray
        self._account, self._job = given.account, given.job
        self.requests: Counter[tuple[str, str, str]] = Counter()
        """Of the sleepers, by thread, method and collection."""
        self._patch = patch
        self._client = bench.client("sagemaker", config=NO_RETRIES)
        self.figures = Figures()
        self.record = Record()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.trainings: dict[str, Training] = {}
        self._finishing: set[str] = set()
        self._notebooks: dict[str, float] = {}
        self._hours = schedule.within_hours(WEEK + 72 * HOUR)
        self._uses: dict[str, float] = {}
        self._last_used = 0.0
        self._killed: set[str] = set()
        self._faulted: set[str] = set()
        self._running: dict[str, str] = {}
        self._workers = 0
        self._asked = COUNT
        self._target = COUNT
        self._edits = frozenset[str]()
        self._dirty = True
        self._down: threading.Thread | None = None
        self._no_function = self._conflict = self._deploying = False
        self._hindered_since: float | None = None
        self._owed_since: float | None = None
        self._armed = ""
        self._replicas: list[Replica] = []
        self._holders = count(1)
        self._look_at = 0.0
        self._looks = count()
        self._calls: list[float] = []
        self._hour: Hour | None = None
        bench.eks.on_change = self._touch
        bench.eks.on_leave = self._left
        bench.hyperpod.world.minutes = Minutes(provision=schedule.provision)

    # --- the time ------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the seconds since the week began."""
        return (self._bench.clock.present - MONDAY).total_seconds()

    def clock(self) -> float:
        """Return the seconds since the epoch."""
        return self._bench.clock.present.timestamp()

    def begin(self) -> None:
        """Deploy the HyperPod cluster, and the RayCluster on it."""
        template = parts.template(self._bench, self._edits, self.schedule.least)
        assert self._stacks.deploy(template) == "CREATE_COMPLETE"
        self._set_ranges(template)
        self._bench.advance(60)
        self._api.create(parts.RAY_CLUSTER.rpartition("/")[0], parts.a_ray_cluster())
        wait_until(lambda: sum(map(_runs, self._pods())) == COUNT + 1, "head and workers")
        [head] = [pod for pod in self._pods() if _label(pod, "ray.io/node-type") == "head"]
        # There the fake of Ray answers.
        status = {"status": {"podIP": self._ray.host, "podIPs": [{"ip": self._ray.host}]}}
        self._api.patch(f"{parts.PODS}/{head['metadata']['name']}/status", status)

    def run(self) -> Figures:
        """Let the week pass, and the time until all works have ended and the group sleeps."""
        self._bench.clock.present = MONDAY
        self._plan()
        for _ in range(2):
            self._add_replica()
        self._step(0.0)
        self._bench.passing = self._pass
        for each in sorted(self.schedule.deployments, key=lambda deployment: deployment.at):
            self._pass_until(each.at)
            while self._conflict or self._down:
                self._pass(MINUTE)
            self._deploy(each)
        self._pass_until(WEEK)
        while not (self._asleep() and all(each.ended is not None for each in self.trainings.values())):
            assert self.now() < WEEK + 48 * HOUR, f"{self._said()}: the week does not end"
            self._pass(10 * MINUTE)
        return self._ended()

    def close(self) -> None:
        """End the sleepers that a failure has left."""
        for each in self._replicas:
            each.kill()

    def _pass_until(self, at: float) -> None:
        if at > self.now():
            self._pass(at - self.now())

    def _pass(self, seconds: float) -> None:
        until = self.now() + seconds
        while self.now() < until - 1e-6:
            self._step(min(until, self._next()))

    def _next(self) -> float:
        return max(self.now() + 0.001, min(self._look_at, self._next_event()))

    def _next_event(self) -> float:
        queue = self._bench.hyperpod.world.timeline._queue
        due = [(queue[0][0] - MONDAY).total_seconds()] if queue else []
        ends = [self.now() + each.left for each in self.trainings.values() if each.trains]
        return min([*due, *ends, *(each[0] for each in self._events[:1])], default=float("inf"))

    def _step(self, at: float) -> None:
        """Let the time pass until an instant, and happen what happens then."""
        passed = at - self.now()
        for each in self.trainings.values():
            if each.trains:
                each.take(passed)
        self._bench.clock.present = MONDAY + timedelta(seconds=at)
        if self.users():
            self._last_used = at
        self._bench.hyperpod.tick()
        while self._events and self._events[0][0] <= at:
            heapq.heappop(self._events)[2]()
        self._settle()
        self._observe()
        if at >= self._look_at:
            self._look()
            if self._dirty:
                self._settle()
                self._observe()
            self._look_at = at + self._until_next_look()
        self._check()

    def _at(self, when: float, deed: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), deed))

    def _after(self, seconds: float, deed: Callable[[], None]) -> None:
        self._at(self.now() + seconds, deed)

    def _plan(self) -> None:
        week = self.schedule
        for work in week.works:
            self._at(work.at, lambda work=work: self._arrive(work))  # type: ignore[misc]
        for number, (begin, end) in enumerate(week.notebooks):
            self._at(begin, lambda name=f"notebook-{number}", end=end: self._open(name, end))  # type: ignore[misc]
        for begin, end in week.silent:
            self._at(begin, lambda: self._silence(away=True))
            self._at(end, lambda: self._silence(away=False))
        for begin, end, most in week.capacity:
            self._at(begin, lambda most=most: self._limit(most))  # type: ignore[misc]
            self._at(end, lambda: self._limit(None))
        for begin, end, error in week.conflicts:
            self._at(begin, lambda error=error, end=end: self._refuse(error, end))  # type: ignore[misc]
        for begin, end in week.no_function:
            self._at(begin, lambda: self._switch_function(off=True))
            self._at(end, lambda: self._switch_function(off=False))
        for at in week.replicas_set:
            self._at(at, self._set_replicas)
        for at in week.deep_checks:
            self._at(at, self._check_deeply)
        for restart in week.restarts:
            self._at(restart.at, lambda restart=restart: self._restart(restart))  # type: ignore[misc]
        for begin, end in week.outages:
            self._at(begin, lambda end=end: self._lose_api(end))  # type: ignore[misc]
        for bound in (each for span in self._hours for each in span):
            if bound > 0:
                self._at(bound, lambda: None)

    # --- what happens --------------------------------------------------------------------------------------

    def _arrive(self, work: Work) -> None:
        if self._down:
            # Nobody can submit now: the person tries again.
            self._after(MINUTE, lambda: self._arrive(work))
            return
        if work.supervised:
            self._api.create(parts.JOBS, parts.a_run(work.name, self._job))
        else:
            self._ray.jobs[work.name] = FakeJob({"entrypoint": work.name}, status="PENDING")
        self._use(work.name)
        self.trainings[work.name] = Training(work)
        self._count("runs" if work.supervised else "jobs")
        self._touch()

    def _open(self, name: str, end: float) -> None:
        if self._down:
            self._after(MINUTE, lambda: self._open(name, end))
            return
        self._api.create(parts.NOTEBOOKS, a_pod(name, nodeSelector={labels.INSTANCE_GROUP_LABEL: WORKERS}))
        self._notebooks[name] = end
        self._use(name)
        self._at(end, lambda: self._close(name))
        self._count("notebooks")
        self._touch()

    def _close(self, name: str) -> None:
        if self._down:
            self._after(MINUTE, lambda: self._close(name))
            return
        try:
            self._api.delete(f"{parts.NOTEBOOKS}/{name}", NOW)
        except KubernetesClientError:
            assert name in self._killed, f"{self._said()}: notebook {name} is gone"
        del self._notebooks[name]
        self._end_use(name)
        self._touch()

    def _silence(self, *, away: bool) -> None:
        self._ray.away = away
        if away:
            self._use("silence")
            self._count("silences of the head")
        else:
            self._end_use("silence")

    def _limit(self, most: int | None) -> None:
        self._bench.fault(capacity={parts.TYPE: most})

    def _refuse(self, error: str, end: float) -> None:
        if self._deploying:
            self._after(5 * MINUTE, lambda: self._refuse(error, end + 5 * MINUTE))
            return
        self._bench.fault(errors={"UpdateCluster": error})
        self._conflict = True
        self._at(end, self._allow)

    def _allow(self) -> None:
        self._bench.fault(errors={"UpdateCluster": None})
        self._conflict = False

    def _switch_function(self, *, off: bool) -> None:
        self._no_function = off

    def _set_replicas(self) -> None:
        """Deploy the RayCluster as the file has it."""
        if self._down:
            self._after(MINUTE, self._set_replicas)
            return
        item = self._api.get(parts.RAY_CLUSTER)
        [workers] = item["spec"]["workerGroupSpecs"]
        workers |= {"replicas": COUNT, "minReplicas": 1}
        self._api.patch(parts.RAY_CLUSTER, {"spec": {"workerGroupSpecs": [workers]}})
        self._asked = COUNT
        self._count("deployments of the RayCluster")
        self._touch()

    def _check_deeply(self) -> None:
        cluster = self._bench.cluster
        nodes = [each for each in cluster.nodes_of(WORKERS) if each.status is NodeStatus.RUNNING and not each.fault]
        if self._down or self._deploying or cluster.status is not ClusterStatus.IN_SERVICE:
            self._after(5 * MINUTE, self._check_deeply)
            return
        for node in nodes:
            self._bench.hyperpod.nodes.start_deep_check(cluster, node)
        self._count("nodes in deep checks", len(nodes))

    def _kill(self, training: Training) -> None:
        if not training.trains:
            return
        if self._down:
            self._after(MINUTE, lambda: self._kill(training))
            return
        uid = min(training.pods)
        self._killed.add(uid)
        self._api.delete(f"{parts.PODS}/{self._running[uid]}", NOW)
        self._count("kills")
        self._touch()

    def _fail_a_node(self, training: Training) -> None:
        if not training.trains:
            return
        if self._down:
            self._after(MINUTE, lambda: self._fail_a_node(training))
            return
        pod = self._api.get(f"{parts.PODS}/{self._running[min(training.pods)]}")
        names = {each.kubernetes_name: each for each in self._bench.cluster.nodes_of(WORKERS)}
        node = names[pod["spec"]["nodeName"]]
        if node.status is NodeStatus.RUNNING and not node.fault:
            self._faulted.add(node.kubernetes_name)
            self._bench.fault(fail_node={"instance": node.instance_id})
            self._count("failed nodes")

    def _left(self, node: str, pods: list[Object]) -> None:
        """Note the pods that go with a node: of one that failed, the sleeper has not taken them."""
        for pod in pods:
            if node in self._faulted:
                self._killed |= {pod["metadata"]["uid"], pod["metadata"]["name"]}

    def _restart(self, restart: Restart) -> None:
        acting = [each for each in self._replicas if each.holds]
        if self._down or not acting or self._armed or len(self._replicas) < 2:
            self._after(2 * MINUTE, lambda: self._restart(restart))
        elif restart.how == "stop":
            acting[0].stop()
            self._gone(acting[0])
        elif restart.how == "kill":
            acting[0].kill()
            self._gone(acting[0])
        else:
            self._armed = restart.how.removeprefix("kill ")

    def _gone(self, replica: Replica) -> None:
        self._replicas.remove(replica)
        self._after(REPLACED_AFTER, self._add_replica)
        self._count("restarts of the sleeper")

    def _add_replica(self) -> None:
        if self._down:
            self._after(MINUTE, self._add_replica)
            return
        host, port = self._plane.endpoint.removeprefix("https://").split(":")
        holder = f"sleeper-{next(self._holders)}"
        group = SleepingGroup.read(parts.group_argument(self.schedule.least, self.schedule.after, self.schedule.hours))

        def made(metrics: GroupMetrics) -> Sleeper:
            return Sleeper(
                ApiServer(host, int(port), self._account),
                metrics,
                [group],
                self,
                function="counts",
                namespace=parts.RAY,
                own_namespace=parts.OWN,
                holder=holder,
                tokens={},
                dry_run=False,
            )

        replica = Replica(holder, made, self.clock)
        self._replicas.append(replica)

    def _lose_api(self, end: float) -> None:
        if self._deploying:
            self._after(5 * MINUTE, lambda: self._lose_api(end + 5 * MINUTE))
            return
        self._settle()
        self._down = threading.Thread(target=lambda: self._plane.restart_api_server(down=1.5), daemon=True)
        self._down.start()
        self._bench.eks.unavailable = True
        wait_until(lambda: not self._answers(), "the API server ends")
        self._at(end, self._return_api)
        self._count("restarts of the API server")

    def _answers(self) -> bool:
        try:
            self._api.get("/version")
        except (HTTPError, OSError, KubernetesClientError):
            return False
        return True

    def _return_api(self) -> None:
        assert self._down
        self._down.join()
        for _ in range(5):
            wait_until(self._answers, "the API server answers")
        # The watches of all, which live in real time, come back.
        time.sleep(2)
        self._down = None
        self._bench.eks.unavailable = False
        self._touch()

    def _deploy(self, deployment: Deployment) -> None:
        """Deploy the custom resource; the function comes before it, and back after it."""
        edits = self._edits ^ deployment.edits
        properties = parts.template(self._bench, edits, self.schedule.least)
        self._set_ranges(properties)
        self._deploying = True
        status = self._stacks.deploy(properties, fails_later=deployment.fails)
        self._deploying = False
        expected = "UPDATE_ROLLBACK_COMPLETE" if deployment.fails else "UPDATE_COMPLETE"
        assert status == expected, f"{self._said()}: {status}: {self._stacks.reasons()}"
        self._edits = self._edits if deployment.fails else edits
        self._set_ranges(parts.template(self._bench, self._edits, self.schedule.least))
        self._count("rollbacks" if deployment.fails else "deployments")

    def _set_ranges(self, properties: dict[str, Any]) -> None:
        self._patch.setenv("CLUSTER_NAME", NAME)
        self._patch.setenv("RANGES", json.dumps(parts.ranges(properties)))
        self._patch.setenv("IMAGES", "{}")
        self._patch.setattr(function, "_client", lambda: self._client)

    # --- the sleepers --------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Let all replicas look: first the one that acts, so that the other sees that it does."""
        acting = any(each.holds for each in self._replicas)
        for each in sorted(self._replicas, key=lambda replica: not replica.holds):
            if acting and not each.holds and next(self._looks) % WAITING_LOOKS:
                continue
            each.look()
            if not each.alive or not each.thread.is_alive():
                each.kill()
                self._gone(each)

    def _until_next_look(self) -> float:
        quiet = self._next_event() - self.now()
        if self._hour:
            if self.now() >= self._hour.began + MEASURED:
                self._measured(self._hour)
            else:
                return LOOKS_MEASURED
        if self._down or self._deploying or len(self._replicas) < 2 or not self._steady():
            return LOOKS
        what = "in use" if self.users() else "asleep"
        if quiet > MEASURED + 5 * MINUTE and what not in [each["what"] for each in self.figures.hours]:
            self._hour = Hour(what, self.now(), len(self._calls), Counter(self.requests))
            return LOOKS_MEASURED
        return max(LOOKS, min(STRETCHED, quiet + 10))

    def _measured(self, hour: Hour) -> None:
        """Keep what the replica that acts asked, for an hour; watches are renewed in real time, and not counted."""
        self._hour = None
        asked = Counter(self.requests)
        asked.subtract(hour.requests)
        acting = [each.holder for each in self._replicas if each.holds]
        found: Counter[str] = Counter()
        for (thread, method, what), number in asked.items():
            if number and method != "WATCH" and thread in acting:
                found[f"{method} {what}"] += round(number * HOUR / MEASURED)
        calls = round((len(self._calls) - hour.calls) * HOUR / MEASURED)
        self.figures.hours.append({"what": hour.what, "calls": calls, "requests": dict(found)})

    def invoke(self, function_name: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Invoke the function, as Lambda does."""
        assert function_name == "counts"
        self._calls.append(self.now())
        changes = bool(event.get("counts"))
        if changes:
            self._end_if_armed("before counts")
        if self._no_function:
            raise AwsApiError(NO_ANSWER, "the function does not answer")
        try:
            answer: dict[str, Any] = json.loads(json.dumps(function.handle(json.loads(json.dumps(event)), None)))
        except ClientError as error:
            raise AwsApiError(NO_ANSWER, f"the function failed: {error}") from error
        if changes and answer["refused"]:
            self._count("refusals")
        elif changes:
            self._change_counts(event["counts"][WORKERS])
            self._end_if_armed("after counts")
        return answer

    def _change_counts(self, wanted: int) -> None:
        if wanted < self._target:
            self._require_idle("nodes")
            assert self._workers <= self.schedule.least, f"{self._said()}: nodes are lowered under Ray's workers"
            self._count("sleeps")
        elif wanted > self._target:
            assert self.users(), f"{self._said()}: nodes wake for nobody"
            self._count("wakes")
        self._target = wanted

    def requested(self, method: str, path: str, body: Any, *, after: bool) -> None:
        """Take a request of a sleeper to the API server."""
        if not threading.current_thread().name.startswith("sleeper"):
            return
        if method == "PUT" and "/leases/" in path and after:
            self.record.looks.append(self.now())
        elif method == "PUT" and "/rayclusters/" in path:
            [group] = body["spec"]["workerGroupSpecs"]
            if after:
                self._asked = group["replicas"]
                self._touch()
                self._end_if_armed("after workers")
            else:
                if group["replicas"] < self._asked:
                    self._require_idle("workers")
                self._end_if_armed("before workers")

    def _end_if_armed(self, when: str) -> None:
        if self._armed == when:
            self._armed = ""
            raise Killed

    def _require_idle(self, what: str) -> None:
        """Require that nothing has used the group for as long as `after` says."""
        idle = self.now() - self._last_used
        assert not self.users(), f"{self._said()}: {what} are taken from {', '.join(self.users())}"
        assert idle >= self.schedule.after, f"{self._said()}: {what} are taken after {idle:.0f} s"

    # --- what is -------------------------------------------------------------------------------------------

    def users(self) -> list[str]:
        """Return what uses the group."""
        now = self.now()
        hours = ["the hours"] if any(begin <= now < end for begin, end in self._hours) else []
        return [*self._uses, *hours]

    def _use(self, name: str) -> None:
        self._uses[name] = self.now()

    def _end_use(self, name: str) -> None:
        self.record.uses.append((self._uses.pop(name), self.now()))
        self._last_used = self.now()

    def _pods(self, which: str = "") -> list[Object]:
        return list(self._api.get(parts.PODS, fieldSelector=which)["items"])

    def _touch(self) -> None:
        self._dirty = True

    def _settle(self) -> None:
        """Give KubeRay, the scheduler and the kubelets the time to do what they must, and the watches to tell it."""
        if not self._dirty or self._down:
            return
        wait_until(self._is_settled, f"{self._said()}: Kubernetes does what it must")
        self._dirty = False
        time.sleep(0.05)

    def _is_settled(self) -> bool:
        pods = self._pods("status.phase!=Succeeded")
        nodes = self._api.get("/api/v1/nodes", labelSelector=f"{labels.INSTANCE_GROUP_LABEL}={WORKERS}")["items"]
        workers = [pod for pod in pods if _label(pod, "ray.io/node-type") == "worker"]
        if any("deletionTimestamp" in pod["metadata"] for pod in workers) or len(workers) != self._asked:
            return False
        names = {node["metadata"]["name"] for node in nodes}
        free = {node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")}
        taints = [taint["key"] for node in nodes for taint in node["spec"].get("taints", [])]
        if any(key.startswith("node.kubernetes.io") for key in taints):
            return False
        bound = {pod["spec"].get("nodeName") for pod in workers} & names
        if sum(map(_runs, workers)) != min(self._asked, len(bound | free)):
            return False
        books = self._api.get(parts.NOTEBOOKS)["items"] if self._notebooks else []
        if free and not all(map(_runs, books)):
            return False
        return self._supervise(pods)

    def _supervise(self, pods: list[Object]) -> bool:
        """Report how the supervisors' pods run and end; return whether Kubernetes knows of all."""
        runs = {name for name, each in self.trainings.items() if each.work.supervised}
        unfinished = {name for name in runs if self.trainings[name].ended is None}
        supervisors = {_label(pod, "job-name"): pod for pod in pods if _label(pod, "job-name")}
        if not unfinished - self._finishing <= supervisors.keys():
            return False
        for name in unfinished & supervisors.keys():
            pod = supervisors[name]
            ends = name in self._finishing
            if pod["spec"].get("nodeName") and (ends or not _runs(pod)):
                self._api.patch(f"{parts.PODS}/{pod['metadata']['name']}/status", _status(pod, ends=ends))
                return False
        if not all(_is_complete(self._api.get(f"{parts.JOBS}/{name}")) for name in self._finishing):
            return False
        for name in self._finishing:
            self.trainings[name].ended = self.now()
            self._end_use(name)
        unfinished -= self._finishing
        self._finishing.clear()
        return all(_runs(supervisors[name]) for name in unfinished)

    def _observe(self) -> None:
        """See which workers run, what that means for the works, and begin those that have their workers."""
        if self._down:
            return
        pods = self._api.get(parts.PODS, labelSelector="ray.io/node-type=worker")["items"]
        joined = {each.kubernetes_name for each in self._bench.cluster.nodes_of(WORKERS) if each.status in JOINED}
        leaving = {each.kubernetes_name for each in self._bench.cluster.nodes_of(WORKERS) if each.leaving}
        self._workers = len(pods)
        self._running = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods if _runs(pod)}
        places = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if _runs(pod)}
        for each in self.trainings.values():
            if each.trains:
                self._follow(each, {places.get(uid, "") for uid in each.pods} <= joined | (leaving & self._faulted))
        usable = {uid: name for uid, name in self._running.items() if places[uid] in joined}
        taken = frozenset(uid for each in self.trainings.values() for uid in each.pods)
        waiting = [each for each in self.trainings.values() if each.ended is None and not each.trains and each.left > 0]
        for each in [] if self._ray.away else place(waiting, usable, taken, self.now()):
            self._began(each)

    def _follow(self, each: Training, whole: bool) -> None:
        gone = each.pods - self._running.keys()
        assert gone <= self._killed, f"{self._said()}: {each.work.name} lost workers that nobody killed"
        assert gone or whole, f"{self._said()}: {each.work.name} runs without its nodes"
        name = self._job_of(each)
        if gone:
            each.lose()
            self._ray.jobs[name].end("FAILED", 1)
            if not each.work.supervised:
                each.failed, each.ended = True, self.now()
                self._end_use(each.work.name)
        elif each.left <= 0:
            each.pods = frozenset()
            self._ray.jobs[name].end("SUCCEEDED", 0)
            if each.work.supervised:
                self._finishing.add(each.work.name)
                self._touch()
                self._settle()
            else:
                each.ended = self.now()
                self._end_use(each.work.name)

    def _began(self, each: Training) -> None:
        self._ray.jobs.setdefault(self._job_of(each), FakeJob({"entrypoint": "train"})).status = "RUNNING"
        if each.attempts == 1:
            for after, deed in ((each.work.kill_after, self._kill), (each.work.fault_after, self._fail_a_node)):
                if after is not None:
                    self._after(after, lambda deed=deed: deed(each))  # type: ignore[misc]
        self._count("attempts")

    @staticmethod
    def _job_of(each: Training) -> str:
        return f"{each.work.name}-{each.attempts}" if each.work.supervised else each.work.name

    def _asleep(self) -> bool:
        nodes = len(list(self._bench.cluster.nodes_of(WORKERS)))
        least = self.schedule.least
        return (self._target, nodes, self._asked) == (least, least, least) and not self.users()

    def _steady(self) -> bool:
        awake = self._target == self._asked == COUNT == len(self._running)
        return self._asleep() or (awake and bool(self.users()))

    def _hindered(self) -> bool:
        cluster = self._bench.cluster
        checked = any(each.status is NodeStatus.DEEP_HEALTH_CHECK for each in cluster.nodes.values())
        busy = cluster.status is not ClusterStatus.IN_SERVICE
        return busy or checked or self._no_function or self._conflict or self._deploying or bool(self._down)

    def _check(self) -> None:
        """Note what the oracle needs, and check what must hold at each instant."""
        now, hindered = self.now(), self._hindered()
        nodes = len(list(self._bench.cluster.nodes_of(WORKERS)))
        if not self.record.nodes or self.record.nodes[-1][1] != nodes:
            self.record.nodes.append((now, nodes))
        if hindered and self._hindered_since is None:
            self._hindered_since = now
        elif not hindered and self._hindered_since is not None:
            self.record.hindered.append((self._hindered_since, now))
            self._hindered_since = None
        target = self._bench.cluster.groups[WORKERS].target
        assert target == self._target, f"{self._said()}: somebody but the sleeper set the count to {target}"
        sure = [user for user in self.users() if user != "silence"]
        owed = bool(sure) and not hindered and (self._target < COUNT or (self._asked < COUNT and not self._down))
        if not owed:
            self._owed_since = None
        elif self._owed_since is None:
            self._owed_since = now
        else:
            assert now - self._owed_since <= WAKES_WITHIN, f"{self._said()}: {sure[0]} waits and nothing wakes"

    def _ended(self) -> Figures:
        for each in list(self._uses):
            self._end_use(each)
        while self._replicas:
            self._replicas.pop().stop()
        figures, now = self.figures, self.now()
        minutes = self._bench.hyperpod.world.minutes
        going = (minutes.update + minutes.shut_down) * MINUTE
        figures.node_hours = node_hours(self.schedule, self.record, now, going)
        figures.most_calls = max(Counter(int(at // HOUR) for at in self._calls).values())
        figures.counts["function's calls"] = len(self._calls)
        figures.counts["hours"] = int(now // HOUR)
        return figures

    def _count(self, what: str, number: int = 1) -> None:
        self.figures.counts[what] += number
        print(f"{self._said()}: {what}")

    def _said(self) -> str:
        at = self.now()
        return f"week {self.schedule.number}, {MONDAY + timedelta(seconds=at):%a %H:%M:%S} ({at:.0f} s)"


def _label(item: Object, name: str) -> str:
    return str(item["metadata"].get("labels", {}).get(name, ""))


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _status(pod: Object, *, ends: bool) -> Object:
    container = {"name": pod["spec"]["containers"][0]["name"], "image": parts.SUPERVISOR, "imageID": ""}
    state: Object = {"terminated": {"exitCode": 0, "reason": "Completed"}} if ends else {"running": {}}
    own = container | {"ready": not ends, "restartCount": 0, "state": state}
    ready = {"type": "Ready", "status": "False" if ends else "True"}
    return {
        "status": {
            "phase": "Succeeded" if ends else "Running",
            "containerStatuses": [own],
            "conditions": [*pod["status"].get("conditions", []), ready],
        }
    }


def _is_complete(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)
