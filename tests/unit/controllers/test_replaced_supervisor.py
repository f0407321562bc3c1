"""A run whose supervisor is killed between any two of its steps ends as an undisturbed run would.

A place is a line of the supervisor's modules. The run is killed there without a word, as with SIGKILL; its successor
finds the Lease free, as after the kubelet's report.
"""

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from controllers import job_decision, lease, ray_jobs_api, run_objects, supervision
from controllers.job_decision import Limits
from controllers.job_run import SupervisedRun
from controllers.kubernetes_api import WatchCache
from controllers.supervision import Supervisor
from controllers.telemetry import Metrics
from tests.support.fake_kubernetes import LEASES, PODS, FakeKubernetes, Object
from tests.support.fake_ray import FakeRay
from tests.support.supervised_run import Supervised
from tests.support.waiting import PATIENCE_SECONDS

KILLED_IN: Final = {module.__file__ for module in (supervision, run_objects, lease, ray_jobs_api)}
WAITS: Final = "train: attempt 1 waits for resources: 2 x {CPU: 1}\n"
HAS: Final = "train: attempt 1 has its resources after 3 s\n"
LIMITS: Final = Limits(attempts=20, stalled=3, seconds=3600)
CASES: Final = 60
STEP: Final = 7
"""Of so many lines a case draws one; together the cases reach more lines than any scenario executes."""

Place = tuple[str, int]


class KilledError(BaseException):
    """The supervisor ends here; no handler of the product catches it."""


@dataclass
class World:
    """What happens to a run from outside: rules of a scenario, applied until it is over."""

    run: Supervised
    ray: FakeRay
    killed: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    def runs(self, attempt: int) -> bool:
        job = self.ray.jobs.get(f"train-{attempt}")
        return job is not None and job.status == "RUNNING"

    def succeeds(self, attempt: int) -> None:
        if self.runs(attempt):
            self.ray.jobs[f"train-{attempt}"].end("SUCCEEDED", 0)

    @property
    def state(self) -> Object:
        return self.run.state

    @property
    def followed(self) -> bool:
        """Return whether the attempt is known to run, or whether nobody looks."""
        return self.killed or self.state.get("phase") == "running"


def success(world: World) -> None:
    world.succeeds(1)


def bug(world: World) -> None:
    if world.runs(1):
        world.ray.jobs["train-1"].end("FAILED", 3, "Job entrypoint command failed with exit code 3")


def stop(world: World) -> None:
    if world.runs(1):
        world.run.stop()


def withdrawal(world: World) -> None:
    """An older run waits for resources once the attempt waits for them inside Ray."""
    others = world.run.kubernetes.collections[LEASES]
    if world.runs(1) and not world.ray.jobs["train-1"].output:
        label = {"ray-on-hyperpod/queue": "rayml"}
        state = {lease.STATE: '{"submitted": "2026-10-01T10:00:00Z"}'}
        metadata = {"name": "older", "resourceVersion": "1", "labels": label, "annotations": state}
        others["older"] = {"metadata": metadata, "spec": {}}
        world.ray.jobs["train-1"].output = WAITS
    elif "train-1" in world.ray.jobs and not world.runs(1):
        others.pop("older", None)
    world.succeeds(2)


def lost_worker(world: World) -> None:
    """A worker is lost at the same moment as the supervisor, and the attempt fails because of it."""
    if world.runs(1) and world.followed:
        world.run.kubernetes.collections[PODS].pop("rayml-worker", None)
        world.ray.jobs["train-1"].end("FAILED", 1, "Job entrypoint command failed with exit code 1")
    world.succeeds(2)


def replaced_worker(world: World) -> None:
    """As `lost_worker`, and its replacement runs before anybody looks."""
    if world.runs(1) and world.followed:
        world.run.kubernetes.collections[PODS].pop("rayml-worker", None)
        world.run.pod("rayml-worker", "worker", "w-2")
        world.ray.jobs["train-1"].end("FAILED", 1, "Job entrypoint command failed with exit code 1")
    world.succeeds(2)


def head_lost_while_it_waits(world: World) -> None:
    if world.runs(1):
        world.ray.jobs["train-1"].output = WAITS
        if world.state.get("phase") == "waiting for resources":
            world.ray.lose()
    world.succeeds(2)


def head_lost_after_progress(world: World) -> None:
    """The first head is lost without progress, the second with progress."""
    if world.runs(1) and world.followed:
        world.ray.lose()
    if world.runs(2):
        world.ray.jobs["train-2"].output = f"{HAS}checkpoint of step 30 written in 0.1 s\n"
        if world.state.get("progress") == 30:
            world.ray.lose()
    world.succeeds(3)


@dataclass(frozen=True)
class Scenario:
    """Rules, the run's limits, its exit code, and how many attempts it takes."""

    rules: Callable[[World], None]
    exit_code: int
    attempts: int
    limits: Limits = LIMITS


SCENARIOS: Final = {
    scenario.rules.__name__: scenario
    for scenario in (
        Scenario(success, 0, 1),
        Scenario(bug, 3, 1),
        Scenario(stop, 130, 1),
        Scenario(withdrawal, 0, 2, Limits(attempts=1, stalled=1, seconds=0)),
        Scenario(lost_worker, 0, 2),
        Scenario(replaced_worker, 0, 2),
        Scenario(head_lost_while_it_waits, 0, 2, Limits(attempts=1, stalled=1, seconds=0)),
        Scenario(head_lost_after_progress, 0, 3, Limits(attempts=20, stalled=2, seconds=0)),
    )
}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the supervisor's pauses."""
    for module, name in (
        (supervision, "_POLL_SECONDS"),
        (job_decision, "_FIRST_DELAY_SECONDS"),
        (lease, "_POLL_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.02)
    monkeypatch.setattr(run_objects, "_RENEW_SECONDS", 0.1)
    monkeypatch.setattr(supervision, "_FIRST_LISTS_SECONDS", 0.02)


@pytest.fixture
def world(kubernetes: FakeKubernetes, ray: FakeRay, tmp_path: Path) -> Iterator[World]:
    made = World(Supervised(kubernetes, ray.host, tmp_path), ray)
    made.run.pod("rayml-worker", "worker", "w-1")
    yield made
    made.over.set()
    leave()


def leave() -> None:
    """End the watches of a supervisor that was killed: they are threads of this process."""
    for thread in threading.enumerate():
        if isinstance(thread, WatchCache):
            thread.stop()


def supervise(world: World, scenario: Scenario, holder: str) -> int:
    run = SupervisedRun("train", "ray", "rayml", "python train.py", "/fsx/runs", package=None, first_attempt=1)
    supervisor = Supervisor(world.run.kubernetes.cluster, Metrics(), run, scenario.limits, holder)
    timer = threading.Timer(PATIENCE_SECONDS, supervisor.ending.set)
    timer.start()
    try:
        return supervisor.run()
    finally:
        timer.cancel()


def traced(act: Callable[[], Any], visit: Callable[[Place], None]) -> Any:
    """Call `visit` before each line of the supervisor's modules that this thread executes in `act`."""

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            visit((Path(frame.f_code.co_filename).name, frame.f_lineno))
        return on_line

    def on_call(frame: FrameType, _: str, __: object) -> Any:
        return on_line if frame.f_code.co_filename in KILLED_IN else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        return act()
    finally:
        sys.settrace(before)


def begin(world: World, scenario: Scenario) -> None:
    """Apply the scenario's rules until the world is over."""

    def apply() -> None:
        while not world.over.wait(0.01):
            scenario.rules(world)

    threading.Thread(target=apply, daemon=True).start()


@pytest.mark.parametrize("name", SCENARIOS)
def test_undisturbed_run_ends_as_its_scenario_says(world: World, name: str) -> None:
    begin(world, SCENARIOS[name])
    assert supervise(world, SCENARIOS[name], "train-a") == SCENARIOS[name].exit_code
    assert world.ray.submissions == [f"train-{number + 1}" for number in range(SCENARIOS[name].attempts)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("number", range(CASES))
def test_run_whose_supervisor_is_replaced_ends_as_an_undisturbed_one(
    world: World, name: str, number: int, draw: random.Random
) -> None:
    """It is killed at the nth place that it reaches, at the first visit there or at a later one."""
    scenario, nth, visit = SCENARIOS[name], number * STEP + draw.randrange(STEP), draw.choice((1, 1, 2, 3))
    visits = Counter[Place]()
    places: list[Place] = []

    def kill(at: Place) -> None:
        if not visits[at]:
            places.append(at)
        visits[at] += 1
        if visits[at] == visit and len(places) > nth and places[nth] == at:
            raise KilledError

    begin(world, scenario)
    try:
        code = traced(lambda: supervise(world, scenario, "train-a"), kill)
    except KilledError:
        leave()
        world.killed = True
        world.over.wait(0.05)
        if "train" in world.run.kubernetes.collections[LEASES]:
            world.run.free_lease()
        code = supervise(world, scenario, "train-b")
    assert len(places) <= CASES * STEP
    assert code == scenario.exit_code, f"killed before {places[-1]}, visit {visit}: {world.state}"
    assert world.ray.submissions == [f"train-{attempt + 1}" for attempt in range(scenario.attempts)]
