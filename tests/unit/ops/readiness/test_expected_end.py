"""The expected end of `ops wait`: from when things began, the table of minutes, and what follows what."""

import io
import json
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Self

import pytest
from rich.console import Console
from typer.testing import CliRunner

from config.estimates import creation
from ops.commands.whole import app
from ops.durations import UNTIL_READY
from ops.readiness.expected_end import after, outlook
from ops.readiness.item import ExpectedEnd, ReadinessItem, ReadinessState
from ops.readiness.wait import wait
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import (
    BUILD_PODS,
    HEAD,
    JOBS,
    NODES,
    PODS,
    RAY_CLUSTER,
    WORKERS,
    condition,
    group,
    job,
    node,
    nodes,
    usable_node,
)

BEGAN = datetime(2026, 11, 2, 10, 0, tzinfo=UTC)
PULL = creation.later(ray=True)[creation.PULL]
NODE = creation.later(ray=False)[creation.NODES]
DEEP = creation.later(ray=False)[creation.DEEP_CHECKS]
BUILD = creation.later(ray=True)[creation.IMAGE_BUILD]


def test_the_default_timeout_is_longer_than_the_longest_published_time() -> None:
    minutes = sum(step.high for step in (NODE, DEEP, PULL))
    assert UNTIL_READY.seconds >= 60 * minutes


def at(minutes: float) -> datetime:
    return BEGAN + timedelta(minutes=minutes)


def end(low: float, typical: float, high: float) -> ExpectedEnd:
    return ExpectedEnd(at(low), at(typical), at(high))


def item(
    kind: str, expected: ExpectedEnd | None = None, state: ReadinessState = ReadinessState.WAITING
) -> ReadinessItem:
    return ReadinessItem(kind, "it", state, "", expected)


def sentence(*items: ReadinessItem, minute: float = 1) -> str:
    found = outlook(items, at(minute))
    return found.sentence(at(minute)) if found else ""


GROUP, IMAGE = item("instance group", end(10, 17, 25)), item("Ray image", end(10, 12, 15))
RAY = item("RayCluster")


def test_steps_that_follow_each_other_add_up() -> None:
    assert after(BEGAN, NODE, DEEP) == end(NODE.low + DEEP.low, NODE.typical + DEEP.typical, NODE.high + DEEP.high)


def test_the_slowest_decides_with_its_range() -> None:
    assert sentence(GROUP, IMAGE) == "expected 10:17 UTC (10:10 to 10:25; instance group it)"


def test_rayclusters_pull_their_image_after_the_slowest() -> None:
    assert sentence(GROUP, IMAGE, RAY) == "expected 10:22 UTC (10:13 to 10:35; instance group it)"


def test_what_is_late_says_so_with_its_last_published_minute() -> None:
    assert (
        sentence(GROUP, minute=20) == "late by 3 min: expected 10:17 UTC, at the latest 10:25 UTC (instance group it)"
    )


def test_what_is_overdue_gets_no_new_end() -> None:
    expected = "overdue by 15 min: instance group it should be ready since 10:25 UTC at the latest"
    assert sentence(GROUP, RAY, minute=40) == expected
    slower = item("instance group", end(60, 137, 205))
    assert (
        sentence(slower, IMAGE, minute=16)
        == "overdue by 1 min: Ray image it should be ready since 10:15 UTC at the latest"
    )


def test_a_late_item_moves_what_follows_it() -> None:
    """The pull cannot begin before now."""
    found = outlook([GROUP, RAY], at(20))
    assert found
    assert found.end == end(20 + PULL.low, 20 + PULL.typical, 25 + PULL.high)


@pytest.mark.parametrize("kind", ["instance group", "HyperPod cluster", "Ray image", "volume claim"])
def test_one_unknown_end_makes_the_end_unknown(kind: str) -> None:
    assert sentence(GROUP, item(kind), RAY) == f"no expected end: nobody knows when {kind} it is ready"


@pytest.mark.parametrize("state", [ReadinessState.FAILED, ReadinessState.PAUSED])
def test_nothing_is_expected_where_waiting_will_not_help(state: ReadinessState) -> None:
    assert outlook([GROUP, item("RayCluster", state=state)], BEGAN) is None


def test_nothing_is_expected_when_everything_is_ready() -> None:
    assert outlook([item("RayCluster", state=ReadinessState.READY)], BEGAN) is None


def test_a_pod_older_than_its_image_pulls_it_since_the_build() -> None:
    ray, built = item("RayCluster", after(BEGAN, PULL)), after(at(30))
    ready = item("Ray image", built, ReadinessState.READY)
    found = outlook([ready, ray], at(31))
    assert found
    assert found.end == after(at(30), PULL)


def test_a_pipe_gets_a_line_for_each_changed_end() -> None:
    looks = iter([[GROUP], [GROUP], [item("instance group")], [item("instance group", state=ReadinessState.READY)]])
    printed = io.StringIO()
    wait(lambda: next(looks), Console(file=printed, width=40), timeout=60, interval=0.001)
    overdue, unknown = (line for line in printed.getvalue().splitlines() if not line.endswith(": "))
    assert overdue.startswith("… overdue by ")
    assert unknown == "… no expected end: nobody knows when instance group it is ready"


# -- the items of a deployed environment


def observed(apis: Apis) -> Any:
    """Return `expected` of `ops wait -o json`."""
    result = CliRunner().invoke(app, ["wait", "--env", "dev", "--require", "none", "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["expected"]


def iso(began: datetime, *minutes: float) -> str:
    return (began + timedelta(minutes=sum(minutes))).isoformat()


NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


class FrozenClock(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOW.timestamp(), tz)


@pytest.fixture(autouse=True)
def frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ops.readiness.wait", "ops.commands.change.running"):
        monkeypatch.setattr(f"{module}.datetime", FrozenClock)


def launched(status: str, began: datetime = NOW) -> dict[str, Any]:
    return node(WORKERS, status) | {"LaunchTime": began.timestamp()}


def provision(apis: Apis, *workers: dict[str, Any]) -> None:
    apis.aws["DescribeCluster"]["InstanceGroups"] = [group(HEAD, 1), group(WORKERS, 0, 4)]
    apis.aws["ListClusterNodes"]["ClusterNodeSummaries"] = [node(HEAD), *workers]
    apis.aws["ListClusterEvents"] = {"Events": []}
    apis.kubernetes[NODES] = [nodes(usable_node()), nodes()]


def test_a_ready_environment_expects_nothing(apis: Apis) -> None:
    assert observed(apis) is None


def test_launched_nodes_are_expected_after_their_launch(apis: Apis) -> None:
    """`dev` checks its workers deeply before they take work."""
    last = NOW + timedelta(minutes=1)
    provision(apis, *[launched("Pending")] * 3, launched("Pending", last))
    assert observed(apis) == {
        "earliest": iso(last, NODE.low, DEEP.low),
        "typical": iso(last, NODE.typical, DEEP.typical),
        "latest": iso(last, NODE.high, DEEP.high),
        "overdue": False,
        "decided_by": f"instance group {WORKERS}",
    }


def test_a_wait_that_gives_up_says_when_to_come_back(apis: Apis) -> None:
    apis.kubernetes[JOBS] = {"items": [job(active=1, startTime=NOW.isoformat())]}
    apis.kubernetes[BUILD_PODS] = {"items": []}
    result = CliRunner().invoke(app, ["wait", "--env", "dev", "--timeout", "0s"])
    assert result.exit_code == 1
    assert "is not ready after 0s: Ray image aws-ray-custom; expected " in result.stderr
    assert result.stderr.endswith("; Ray image aws-ray-custom). Fix: rerun `ops wait --env dev` to resume\n")


def test_missing_capacity_has_no_expected_end(apis: Apis) -> None:
    provision(apis, *[launched("Pending")] * 3)
    unknown = dict.fromkeys(("earliest", "typical", "latest"))
    assert observed(apis) == {**unknown, "overdue": False, "decided_by": f"instance group {WORKERS}"}


def test_nodes_that_nobody_can_still_expect_are_overdue(apis: Apis) -> None:
    provision(apis, *[launched("DeepHealthCheckInProgress", NOW - timedelta(minutes=NODE.high + DEEP.high + 1))] * 4)
    assert observed(apis)["overdue"]


def test_a_build_is_expected_after_its_start(apis: Apis) -> None:
    apis.kubernetes[JOBS] = {"items": [job(active=1, startTime=NOW.isoformat())]}
    apis.kubernetes[BUILD_PODS] = {"items": []}
    found = observed(apis)
    assert (found["typical"], found["decided_by"]) == (iso(NOW, BUILD.typical), "Ray image aws-ray-custom")


def test_pods_are_expected_after_the_pull_of_their_image(apis: Apis) -> None:
    apis.kubernetes[RAY_CLUSTER] = {"status": {"availableWorkerReplicas": 3}}
    apis.kubernetes[JOBS] = {"items": [job(succeeded=1, conditions=[condition("Complete")])]}
    status = {"phase": "Pending", "startTime": NOW.isoformat()}
    pod = {"metadata": {"name": "rayml-worker", "labels": {}}, "spec": {"containers": []}, "status": status}
    apis.kubernetes[PODS] = {"items": [pod]}
    found = observed(apis)
    assert (found["typical"], found["decided_by"]) == (iso(NOW, PULL.typical), "RayCluster ray/rayml")
