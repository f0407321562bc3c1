"""How many requests two sleepers send to the API server in an hour, by the number of nodes.

Their clock is virtual; each replica looks as often as it does by itself. Watches live in real time: how often they are
renewed is counted by their length.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from config import labels
from controllers import kubernetes_api
from controllers.group_users import SleepingGroup
from controllers.kubernetes_api import ApiServer
from controllers.sleeper import Sleeper
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import ACCELERATED, Kubectl
from tests.rehearsal.kubernetes.cluster import install_definitions
from tests.rehearsal.kubernetes.sleep_week import cluster as parts
from tests.rehearsal.kubernetes.sleep_week.virtual_time import Replica, virtual
from tests.support.waiting import wait_until

pytestmark = pytest.mark.product

GROUP: Final = "gpu"
HOUR: Final = 3600.0
MEASURED: Final = 600.0
MOST: Final = 6000
"""Requests of both replicas in an hour, as docs/operate/sleep.md says."""


@pytest.fixture
def plane(tmp_path: Path, binaries: Binaries) -> Iterator[ControlPlane]:
    """Start a control plane whose nodes have no kubelets."""
    plane = ControlPlane(tmp_path / "plane", binaries, name="requests")
    plane.start()
    yield plane
    plane.stop()


class Clock:
    """The time of both replicas, and the function's answers."""

    def __init__(self, nodes: int) -> None:
        self.now = 1.8e9
        self.target = nodes

    def read(self) -> float:
        return self.now

    def requested(self, method: str, path: str, body: Any, *, after: bool) -> None:
        """Let each request pass."""

    def invoke(self, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Answer as the function does."""
        assert function == "counts"
        self.target = event.get("counts", {}).get(GROUP, self.target)
        groups = {GROUP: {"target": self.target, "current": self.target}}
        return {"cluster": "InService", "groups": groups, "refused": ""}


def test_requests_of_an_hour_do_not_depend_on_the_number_of_nodes(
    plane: ControlPlane, binaries: Binaries, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kubectl = Kubectl(plane)
    install_definitions(kubectl, binaries)
    parts.deployed(kubectl)
    account = parts.account_of_sleeper(plane, kubectl, tmp_path / "account")
    few = measured(plane, account, 10)
    add_nodes(plane, range(10, 1000))
    print("1000 nodes")
    many = measured(plane, account, 1000)
    record_property("requests an hour", {"10 nodes": few, "1000 nodes": many})
    print(few, many)
    assert few == many
    assert sum(many.values()) <= MOST


def measured(plane: ControlPlane, account: Path, nodes: int) -> dict[str, int]:
    """Return the requests of an hour, in which the group falls asleep."""
    if nodes == 10:
        add_nodes(plane, range(nodes))
    clock, requests = Clock(nodes), Counter[tuple[str, str, str]]()
    host, port = plane.endpoint.removeprefix("https://").split(":")
    rule = {"group": GROUP, "count": nodes, "min": 0, "after_seconds": 300.0, "hours": None, "workers": []}
    group = SleepingGroup.read(json.dumps(rule))
    with virtual(clock.read, clock, requests):
        replicas = [
            Replica(
                f"sleeper-{nodes}-{number}",
                lambda metrics, number=number: Sleeper(  # type: ignore[misc]
                    ApiServer(host, int(port), account),
                    metrics,
                    [group],
                    clock,
                    function="counts",
                    namespace=parts.RAY,
                    own_namespace=parts.OWN,
                    holder=f"sleeper-{nodes}-{number}",
                    tokens={},
                    dry_run=False,
                ),
                clock.read,
            )
            for number in range(2)
        ]
        for each in replicas:
            each.look()
        wait_until(lambda: all(len(each.sleeper._users._nodes.snapshot()) >= nodes for each in replicas), "the nodes")
        pass_until(clock, replicas, clock.now + 60)
        before = Counter(requests)
        pass_until(clock, replicas, clock.now + MEASURED)
        requests.subtract(before)
        assert clock.target == 0, "the group fell asleep"
        for each in replicas:
            each.stop()
    watches = len(replicas[0].sleeper._users._watches)
    found: Counter[str] = Counter()
    for (thread, method, what), number in requests.items():
        if method != "WATCH" and thread.startswith("sleeper") and number > 0:
            found[f"{method} {what}"] += round(number * HOUR / MEASURED)
    found["WATCH"] = round(2 * watches * HOUR / kubernetes_api._WATCH_SECONDS)
    return dict(sorted(found.items()))


def pass_until(clock: Clock, replicas: list[Replica], until: float) -> None:
    """Let the replica that waits no longer than the others look, again and again."""
    while (turn := min(replicas, key=lambda replica: replica.turns.due)).turns.due <= until:
        clock.now = max(clock.now, turn.turns.due)
        turn.look()
    clock.now = until


def add_nodes(plane: ControlPlane, numbers: range) -> None:
    def add(number: int) -> None:
        metadata = {"name": f"gpu-{number}", "labels": {labels.INSTANCE_GROUP_LABEL: GROUP}}
        plane.api.create("/api/v1/nodes", {"metadata": metadata, "status": {"capacity": ACCELERATED}})

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(add, numbers))
