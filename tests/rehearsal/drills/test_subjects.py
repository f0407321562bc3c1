"""When a RayCluster counts as whole, and what the timeline says."""

import time
from typing import Any

import pytest
from rich.console import Console

from embedded_account.kubernetes.api import Object
from rehearsal.drills.cluster import report
from rehearsal.drills.cluster.subject import HERE, STOCK, Recovery, Subject
from rehearsal.drills.cluster.world import Happening
from rehearsal.run.cluster import TimedOutError
from tests.support.waiting import PATIENCE_SECONDS


def pod(name: str, role: str = "worker", *, node: str = "well", ready: bool = True, ending: bool = False) -> Object:
    """A Ray pod that runs."""
    labels = {"ray.io/cluster": "rayml", "ray.io/node-type": role}
    metadata = {"name": name, "namespace": "ray", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": metadata | ({"deletionTimestamp": "2026-01-01T00:01:00Z"} if ending else {}),
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": conditions},
    }


class FakeWorld:
    """Pods, of which those on the node `well` are on a healthy one."""

    def __init__(self, *pods: Object) -> None:
        self.listed = list(pods)

    def pods(self, _: str) -> list[Object]:
        return self.listed

    def healthy_nodes(self) -> set[str]:
        return {"well"}


def subject(world: Any, *, title: str = HERE) -> Subject:
    return Subject(title, "ray", "rayml", 2, world, "zone")


HEAD, FIRST, SECOND = pod("head", "head"), pod("first"), pod("second")


def test_a_head_and_all_workers_are_whole() -> None:
    assert subject(FakeWorld(HEAD, FIRST, SECOND)).is_whole()


@pytest.mark.parametrize(
    "pods",
    [
        (HEAD, FIRST),
        (FIRST, SECOND),
        (HEAD, FIRST, SECOND, pod("third")),
        (HEAD, FIRST, pod("lost", node="silent")),
        (HEAD, FIRST, pod("not-ready", ready=False)),
        (HEAD, FIRST, pod("ending", ending=True)),
    ],
    ids=["a worker too few", "no head", "a worker too many", "on a lost node", "not Ready", "Terminating"],
)
def test_anything_else_is_not(pods: tuple[Object, ...]) -> None:
    assert not subject(FakeWorld(*pods)).is_whole()


@pytest.mark.parametrize("surplus", [pod("third", ready=False), pod("third", ending=True)], ids=["comes", "goes"])
def test_a_worker_too_many_that_comes_or_goes_is_not_settled(surplus: Object) -> None:
    """KubeRay will take it away, and a drill that has begun by then would see a deletion."""
    assert subject(FakeWorld(HEAD, FIRST, SECOND, surplus)).is_whole()
    assert not subject(FakeWorld(HEAD, FIRST, SECOND, surplus)).is_settled()
    assert subject(FakeWorld(HEAD, FIRST, SECOND)).is_settled()


def test_a_pod_that_was_struck_does_not_count_although_it_still_looks_well() -> None:
    assert not subject(FakeWorld(HEAD, FIRST, SECOND)).is_whole(without=["second"])
    assert subject(FakeWorld(HEAD, FIRST, SECOND, pod("third"))).is_whole(without=["second"])


def test_a_pod_that_is_looked_for_and_not_there_is_told_with_the_state() -> None:
    with pytest.raises(TimedOutError, match=r"has no good head: 1 of 2 workers, no head \(Terminating\)"):
        subject(FakeWorld(FIRST, pod("head", "head", ending=True))).a("head")


def recovery(world: FakeWorld, *, title: str = HERE, limit: float | None = PATIENCE_SECONDS) -> Recovery:
    made = Recovery("a-drill", subject(world, title=title), time.time(), without=[], patience=0.1, limit=limit)
    made.start()
    made.join()
    return made


def test_a_promise_that_is_not_kept_in_time_is_broken_and_the_state_is_told() -> None:
    assert recovery(FakeWorld(HEAD, FIRST, SECOND)).kept
    late = recovery(FakeWorld(HEAD, FIRST))
    assert not late.kept
    assert late.outcome() == "not after 0 s: 1 of 2 workers"
    assert not recovery(FakeWorld(HEAD, FIRST, SECOND), limit=0.0).kept


def test_nothing_is_promised_of_stock_kuberay() -> None:
    assert recovery(FakeWorld(HEAD), title=STOCK, limit=None).kept


def happening(at: float, name: str, after: str, before: str = "Running", node: str = "node-1") -> Happening:
    labels = {"ray.io/cluster": "rayml", "ray.io/node-type": "worker"}
    return Happening(at, "pod", "ray", name, before, after, node, labels)


def test_the_timeline_says_whose_doing_it_was() -> None:
    zone = {"topology.kubernetes.io/zone": "zone"}
    told = [
        happening(1, "w-abc", "Terminating"),
        happening(2, "w-abc", "gone", before="Terminating"),
        happening(3, "w-def", "Running", before="Pending"),
        Happening(4, "node", "", "node-1", "Ready", "Ready is Unknown", "node-1", zone),
    ]
    users = {"w-abc": ["node-controller", "ray-reaper"]}
    lines = report.lines(told, [subject(FakeWorld())], lambda pod: users.get(pod.name, []))
    assert [line.text for line in lines] == [
        "worker abc Terminating: node-controller",
        "worker abc gone: forced by ray-reaper",
        "worker def Running on node-1",
        "node node-1: Ready is Unknown",
    ]


def test_what_happens_to_many_at_once_is_one_line() -> None:
    told = [happening(1 + number / 10, f"w-{number}", "Running", before="Pending") for number in range(4)]
    lines = list(report.lines(told, [subject(FakeWorld())], lambda _: []))
    assert [line.text for line in lines] == ["4 workers Running"]


def test_both_columns_fit_into_a_hundred_characters() -> None:
    long = "node hyperpod-worker-group-1-10: Ready is Unknown, UnschedulablePendingReplacement"
    console = Console(width=100, record=True)
    console.print(
        report.timeline(
            [report.TimelineLine(1, HERE, long), report.TimelineLine(2, STOCK, long), report.TimelineLine(3, "", long)],
            0,
        )
    )
    printed = console.export_text().splitlines()
    assert max(map(len, printed)) <= 100
    assert sum("Unknown" in line for line in printed) == 3
