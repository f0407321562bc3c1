"""How many workers an elastic run takes, and how its workers end together; without Ray."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray.train

import ray_resume
from ray_resume.elastic.group import ElasticGroup, end_if_asked, train_in
from ray_resume.elastic.resizing import Resizing
from ray_resume.elastic.sizes import Elastic, Room, Sizes, fitting, sizes
from tests.jobs.support.paths import MODULES
from tests.jobs.support.version_set import SET, TABLE

VARIABLES = ("RUN_MIN_WORKERS", "RUN_MAX_WORKERS", "RUN_WAIT_FOR_WORKERS")
TRAINS = Room(waits=False, free=0, wanted=False)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("elastic", "workers", "allowed"),
    [
        (Elastic(), 4, (4,)),
        (Elastic(min_workers=4), 4, (4,)),
        (Elastic(min_workers=2), 4, (4, 3, 2)),
        (Elastic(min_workers=2, batch=24), 4, (4, 3, 2)),
        (Elastic(min_workers=2, batch=32), 4, (4, 2)),
        (Elastic(min_workers=3, batch=32), 4, (4,)),
        (Elastic(batch=32), 5, (5,)),
    ],
)
def test_only_numbers_that_divide_the_batch_are_used(elastic: Elastic, workers: int, allowed: tuple[int, ...]) -> None:
    found = sizes(elastic, workers)
    assert (found.allowed, found.full, found.fixed) == (allowed, workers, len(allowed) == 1)
    assert found.wait == 600


def test_variables_override_what_the_script_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(VARIABLES, ("2", "6", "30"), strict=True):
        monkeypatch.setenv(name, value)
    assert sizes(Elastic(min_workers=1, batch=12), 2) == Sizes((6, 4, 3, 2), 30)
    monkeypatch.delenv("RUN_MIN_WORKERS")
    assert sizes(Elastic(), 2) == Sizes((6,), 30)


@pytest.mark.parametrize(
    ("elastic", "variables", "message"),
    [
        (
            Elastic(min_workers=2, batch=32),
            {"RUN_MAX_WORKERS": "5"},
            "5 workers of an elastic run are invalid: they do not divide its global batch of 32 samples. "
            "Allowed: 1, 2, 4, or another batch",
        ),
        (Elastic(min_workers=5), {}, "at least 5 workers are invalid. Allowed: 1 to 4, all workers of the run"),
        (Elastic(), {"RUN_MIN_WORKERS": "0"}, "RUN_MIN_WORKERS '0' is invalid. Allowed: whole numbers from 1"),
        (Elastic(), {"RUN_WAIT_FOR_WORKERS": "1m"}, "RUN_WAIT_FOR_WORKERS '1m' is invalid. Allowed: whole numbers"),
    ],
)
def test_impossible_numbers_are_refused(
    monkeypatch: pytest.MonkeyPatch, elastic: Elastic, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ray_resume.InvalidInputError) as refused:
        sizes(elastic, 4)
    assert message in str(refused.value)


DONE_RUN = """
import sys, ray_resume
run = ray_resume.Run.from_environment("run", sys.argv[1], every=1)
run.finish(run.begin({}), {})
elastic = ray_resume.Elastic(min_workers=1, wait=9) if "elastic" in sys.argv else None
ray_resume.main(run, print, {}, ray_resume.workers(2), elastic=elastic)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "variables", "code"),
    [
        (["elastic"], {"RAY_TRAIN_V2_ENABLED": "1"}, 2),
        ([], {"RAY_TRAIN_V2_ENABLED": "1", "RUN_MIN_WORKERS": "1"}, 2),
        (["elastic"], {"RAY_TRAIN_V2_ENABLED": "1", "RUN_MIN_WORKERS": "2"}, 0),
        ([], {"RAY_TRAIN_V2_ENABLED": "1"}, 0),
        (["elastic"], {"RAY_TRAIN_V2_ENABLED": "0"}, 0),
        (["elastic"], {}, 0),
    ],
    ids=["elastic", "elastic by a variable", "made fixed", "fixed", "V2 switched off as the fix says", "as Ray's pods"],
)
def test_elastic_run_with_ray_train_v2_is_refused(
    tmp_path: Path, words: list[str], variables: dict[str, str], code: int
) -> None:
    """Ray Train V2 would never change the number of workers. The run is done, so that no worker starts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RUN_", "RAY_TRAIN"))}
    ended = subprocess.run(
        [sys.executable, "-c", DONE_RUN, str(tmp_path), *words],
        env={**kept, "PYTHONPATH": MODULES, **TABLE["as_before"](SET.ray), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    if code:
        told = "run: 1 to 2 workers with Ray Train V2 are invalid"
        assert told in ended.stderr
        assert "Allowed: 2 workers (RUN_MIN_WORKERS=2). Fix: set RAY_TRAIN_V2_ENABLED=0" in ended.stderr


@pytest.mark.parametrize(
    ("free", "waited", "smaller"),
    [(3, 600, 3), (3, 599, None), (4, 600, 3), (2, 900, 2), (1, 900, None), (0, 900, None)],
)
def test_run_continues_with_the_most_workers_that_fit(free: int, waited: float, smaller: int | None) -> None:
    room = Room(waits=True, free=free, wanted=True)
    assert Sizes((4, 3, 2), 600).smaller(4, room, waited) == smaller
    assert Sizes((4, 3, 2), 600).smaller(4, TRAINS, waited) is None


@pytest.mark.parametrize(("free", "larger"), [(0, None), (1, 3), (2, 4), (9, 4)])
def test_run_grows_into_what_nobody_uses_or_waits_for(free: int, larger: int | None) -> None:
    allowed = Sizes((4, 3, 2), 600)
    assert allowed.larger(2, Room(waits=False, free=free, wanted=False)) == larger
    assert allowed.larger(2, Room(waits=False, free=free, wanted=True)) is None
    assert allowed.larger(2, Room(waits=True, free=free, wanted=False)) is None
    assert allowed.larger(4, Room(waits=False, free=9, wanted=False)) is None


def test_room_is_counted_node_by_node() -> None:
    nodes = [{"CPU": 3.0, "GPU": 1.0}, {"CPU": 0.5, "GPU": 4.0}, {"CPU": 9.0}, {"CPU": 8.0, "GPU": 2.0}]
    assert fitting({"CPU": 1, "GPU": 1}, nodes) == 3
    assert fitting({"CPU": 0.1, "GPU": 0}, [{"CPU": 0.1 + 0.1 + 0.1}]) == 3
    assert fitting({"CPU": 0.1}, [{"CPU": 0.799}]) == 7
    assert fitting({"GPU": 1}, []) == 0


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """Replace the memory of Ray's head, in which a driver and its workers meet."""
    kept: dict[bytes, bytes] = {}
    fake = SimpleNamespace(
        _internal_kv_put=lambda key, value, **_: kept.update({key: value}),
        _internal_kv_get=lambda key, **_: kept.get(key),
        _internal_kv_del=lambda key, **_: kept.pop(key, None),
    )
    monkeypatch.setattr("ray_resume.elastic.group.internal_kv", fake)
    monkeypatch.setattr(ray.train, "get_context", lambda: SimpleNamespace(get_world_rank=lambda: 0))
    return kept


@pytest.fixture
def group(memory: dict[bytes, bytes]) -> ElasticGroup:
    return ElasticGroup("job: attempt 1", "id", size=2, full=4)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Replace the clock; each look at it is 10 seconds later."""
    ticks = count(1000, 10)
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr("ray_resume.elastic.resizing.time", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_group_that_waits_for_too_long_ends(group: ElasticGroup, capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([(True, 1), (False, 0), (True, 1), (True, 1), (True, 1), (True, 1)])
    seen = [Room(waits=waits, free=free, wanted=False) for waits, free in looks]
    resizing = Resizing(group, Sizes((2, 1), 30), iter(seen).__next__)
    answers = [resizing.stop_all() for _ in range(7)]
    assert answers == [False] * 5 + [True, True], "30 seconds in a row, then for good"
    assert resizing.smaller == 1
    expected = "job: attempt 1 continues with 1 of 4 workers: 2 had no resources for 30 s\n"
    assert capsys.readouterr().out == expected


@pytest.mark.usefixtures("clock")
def test_workers_are_asked_to_end_as_long_as_there_is_room_for_more(
    group: ElasticGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([1, 2, 2, 0, 1, 1, 1])
    resizing = Resizing(group, Sizes((4, 3, 2), 600), lambda: Room(waits=False, free=next(looks), wanted=False))
    asked = []
    for _ in range(5):
        assert not resizing.stop_all()
        asked.append(group.asked())
    assert asked == [3, 4, 4, None, 3]
    group.begin()
    assert not resizing.stop_all()
    assert not resizing.stop_all()
    assert capsys.readouterr().out.splitlines() == [
        f"job: attempt 1 has room for {size} workers: it grows from 2 at its next checkpoint" for size in (3, 4, 3)
    ] + ["job: attempt 1 runs with 2 of 4 workers"]


@pytest.mark.usefixtures("clock")
def test_error_of_a_look_ends_nothing(group: ElasticGroup) -> None:
    def fail() -> Room:
        raise ConnectionError("the head does not answer")

    assert not Resizing(group, Sizes((2, 1), 30), fail).stop_all()


def test_stopper_in_rays_record_never_stops(group: ElasticGroup) -> None:
    resizing = Resizing(group, Sizes((2, 1), 30), lambda: TRAINS)
    resizing.smaller = 1
    assert resizing.stop_all()
    assert not pickle.loads(pickle.dumps(resizing)).stop_all()  # noqa: S301


def test_workers_end_after_a_checkpoint_once_asked(group: ElasticGroup) -> None:
    done: list[int] = []

    def train() -> None:
        for step in range(5):
            done.append(step)
            if step == 2:
                group.ask(4)
            try:
                end_if_asked(lambda: done.append(-1))
            except Exception:  # noqa: BLE001 - as scripts have it
                pytest.fail("a script must not be able to continue")

    group.end(3)
    train_in(group, train)
    assert done == [0, 1, 2, -1], "the last checkpoint is complete"
    assert group.ended() == 4


def test_group_that_ends_by_itself_did_not_end_for_another(group: ElasticGroup) -> None:
    group.end(3)
    train_in(group, lambda: end_if_asked(pytest.fail))
    assert group.ended() is None


def test_outside_of_a_group_nothing_ends() -> None:
    end_if_asked(pytest.fail)


def test_head_that_does_not_answer_lets_the_workers_train_on(
    group: ElasticGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("the head does not answer")

    def train() -> None:
        monkeypatch.setattr("ray_resume.elastic.group.internal_kv._internal_kv_get", fail)
        end_if_asked(pytest.fail)

    train_in(group, train)
