"""A week of a cluster that sleeps: real sleepers, API server, KubeRay and handlers, in virtual hours.

Real are the API server with its controllers, KubeRay's operator, two replicas of the sleeper (their loop, requests,
rights, Lease and watches), the function GroupCounts, and the custom resource's handlers behind the embedded account's
CloudFormation. Simulated are HyperPod, kubelets, the head's answers, and what trains. The sleepers look each minute,
and less often while nothing happens.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import Kubectl
from tests.handlers.support.engine import Deployments
from tests.rehearsal.kubernetes.cluster import install_operator
from tests.rehearsal.kubernetes.sleep_week import cluster as parts
from tests.rehearsal.kubernetes.sleep_week.cluster import WeekBench
from tests.rehearsal.kubernetes.sleep_week.least import Record, node_hours
from tests.rehearsal.kubernetes.sleep_week.schedule import HOUR, HOURS, MINUTE, draw
from tests.rehearsal.kubernetes.sleep_week.virtual_time import virtual
from tests.rehearsal.kubernetes.sleep_week.week import Given, Week
from tests.support import fake_ray

pytestmark = pytest.mark.product

GOING = 7 * MINUTE
MOST_CALLS = 60
"""Of the function in an hour in which nothing changes."""
MOST_REQUESTS = 300
"""To the API server, of the replica that acts, in an hour in which nothing changes; its watches come to that."""


@pytest.fixture
def plane(tmp_path: Path, binaries: Binaries) -> Iterator[ControlPlane]:
    """Start a control plane with KubeRay: its API server is restarted in the week."""
    plane = ControlPlane(tmp_path / "plane", binaries, name="week", played_elsewhere=[parts.SUPERVISOR])
    plane.start()
    parts.add_system_nodes(plane)
    install_operator(Kubectl(plane), binaries)
    yield plane
    plane.stop()


@pytest.fixture
def given(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Given]:
    """Return the parts of a week."""
    kubectl = Kubectl(plane)
    job = parts.deployed(kubectl)
    account = parts.account_of_sleeper(plane, kubectl, tmp_path / "account")
    with WeekBench(plane) as bench, fake_ray.serve() as ray:
        stacks = Deployments(bench, monkeypatch)
        yield Given(plane, bench, stacks, ray, account, job)
        stacks.close()


@pytest.mark.sampled(1, long=3)
@pytest.mark.parametrize("number", range(20))
def test_a_week_loses_no_run_and_spends_the_least_node_hours(
    number: int, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = draw(number)
    week = Week(schedule, given, monkeypatch)
    week.begin()
    with virtual(week.clock, week, week.requests):
        try:
            figures = week.run()
        finally:
            week.close()
    told = {"week": number, **figures.counts, "most calls in an hour": figures.most_calls, "hours": figures.hours}
    print(told, figures.node_hours)
    ended = list(week.trainings.values())
    assert len(ended) == len(schedule.works)
    runs = [each for each in ended if each.work.supervised]
    assert [each.work.name for each in runs if not each.is_whole()] == []
    assert [each.work.name for each in ended if not each.failed and not each.is_whole()] == []
    assert figures.node_hours
    assert figures.node_hours.spent <= 1.05 * figures.node_hours.least, figures.node_hours
    for hour in figures.hours:
        assert hour["calls"] <= MOST_CALLS, hour
        assert sum(hour["requests"].values()) <= MOST_REQUESTS, hour


@pytest.mark.parametrize(
    ("left", "gap", "hindered", "enough"),
    [
        (0.0, None, (), True),
        (2 * MINUTE, None, (), True),
        (HOUR, None, (), False),
        (24 * HOUR, None, (), False),
        # A look more than two minutes after the one before, half an hour after the use: the idle time began then.
        (30 * MINUTE, 30 * MINUTE, (), True),
        (HOUR, 30 * MINUTE, (), False),
        # The function did not answer from a minute before the nodes were to go until half an hour later.
        (30 * MINUTE, None, (-MINUTE, 30 * MINUTE), True),
        (HOUR, None, (-MINUTE, 30 * MINUTE), False),
        # A minute later it fails: the nodes should have gone before.
        (HOUR, None, (MINUTE, 50 * MINUTE), False),
    ],
)
def test_the_least_node_hours_are_those_of_uses_and_of_what_delays_a_sleep(
    left: float, gap: float | None, hindered: tuple[float, ...], *, enough: bool
) -> None:
    """A use of two hours; its three nodes go when it and `after` are over, or `left` seconds later."""
    schedule = replace(draw(0), least=0, after=30 * MINUTE, hours=None)
    over = 2 * HOUR + schedule.after
    looks = [n * MINUTE for n in range(24 * 60)]
    if gap is not None:
        looks = [
            each for each in looks if not over - schedule.after + gap - 3 * MINUTE < each < over - schedule.after + gap
        ]
    record = Record(
        uses=[(0.0, 2 * HOUR)],
        looks=looks,
        hindered=[(over + hindered[0], over + hindered[1])] if hindered else [],
        nodes=[(0.0, 3), (over + GOING + left, 0)],
    )
    found = node_hours(schedule, record, 48 * HOUR, GOING)
    assert found.spent == pytest.approx(3 * (over + GOING + left) / HOUR)
    assert (found.spent <= 1.05 * found.least) is enough


def test_nodes_that_stay_and_hours_are_needed() -> None:
    schedule = replace(draw(0), least=1, after=30 * MINUTE, hours=HOURS)
    # In winter the hours begin at 07:00 UTC.
    nodes = [(0.0, 1), (7 * HOUR, 3), (17 * HOUR + schedule.after + GOING, 1)]
    record = Record(looks=[n * MINUTE for n in range(24 * 60)], nodes=nodes)
    found = node_hours(schedule, record, 24 * HOUR, GOING)
    assert found.spent == found.least
