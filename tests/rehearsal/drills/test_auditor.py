"""The auditor: which deletions it lets pass. `test_cluster_context.py` shows it one on a real control plane."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from rehearsal.drills.cluster.auditor import SETTLED_SECONDS, Auditor
from rehearsal.drills.cluster.world import Happening

NOW = 1_800_000_000.0
OPERATOR = "system:serviceaccount:kuberay:kuberay-operator"


class FakeWorld:
    """Some happenings, on nodes of which some are healthy until a moment."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []
        self.healthy_until: dict[str, float] = {}

    def since(self, moment: float) -> list[Happening]:
        return [each for each in self.happenings if each.at >= moment]

    def was_healthy(self, node: str, at: float) -> bool:
        return at < self.healthy_until.get(node, 0)


def deletion(pod: str, *, at: float, before: str = "Running", after: str = "Terminating") -> Happening:
    return Happening(at, "pod", "ray", pod, before, after, "node-1", {})


def request(pod: str, user: str, at: float, code: int = 200) -> dict[str, Any]:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06}Z"
    return {
        "requestReceivedTimestamp": moment,
        "user": {"username": user},
        "objectRef": {"namespace": "ray", **({"name": pod} if pod else {})},
        "responseStatus": {"code": code},
    }


@pytest.fixture
def world() -> FakeWorld:
    made = FakeWorld()
    made.healthy_until["node-1"] = NOW + 100
    return made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "pod-deletions.jsonl"


@pytest.fixture
def auditor(world: Any, log: Path) -> Auditor:
    made = Auditor(world, log)
    made.begin(NOW)
    return made


def write(log: Path, *requests: dict[str, Any]) -> None:
    log.write_text("".join(json.dumps(each) + "\n" for each in requests))


def test_a_deletion_on_a_healthy_node_is_an_offence_and_its_user_is_named(
    auditor: Auditor, world: FakeWorld, log: Path
) -> None:
    world.happenings = [deletion("worker", at=NOW + 2)]
    write(log, request("worker", OPERATOR, NOW + 1.9), request("worker", "rehearsal-admin", NOW + 1.95))
    assert auditor.offences() == ["kuberay-operator deleted ray/worker on node-1, which was healthy"]


def test_a_program_that_acts_as_somebody_else_is_named_as_that_user(
    auditor: Auditor, world: FakeWorld, log: Path
) -> None:
    world.happenings = [deletion("worker", at=NOW + 2)]
    write(log, {**request("worker", "rehearsal-admin", NOW + 1.9), "impersonatedUser": {"username": OPERATOR}})
    assert auditor.offences() == ["kuberay-operator deleted ray/worker on node-1, which was healthy"]


def test_a_pod_that_vanishes_at_once_is_an_offence_too(auditor: Auditor, world: FakeWorld) -> None:
    world.happenings = [deletion("worker", at=NOW + 2, after="gone")]
    assert auditor.offences() == ["an unknown user deleted ray/worker on node-1, which was healthy"]


def test_a_deletion_of_a_whole_namespaces_pods_is_an_offence(auditor: Auditor, world: FakeWorld, log: Path) -> None:
    world.happenings = [deletion("worker", at=NOW + 2)]
    write(log, request("", "system:serviceaccount:kube-system:namespace-controller", NOW + 1))
    assert "namespace-controller deleted ray/worker" in auditor.offences()[0]


def test_a_deletion_on_a_node_that_is_lost_is_none(auditor: Auditor, world: FakeWorld) -> None:
    world.healthy_until["node-1"] = NOW + 1
    world.happenings = [deletion("worker", at=NOW + 2)]
    assert auditor.offences() == []


def test_a_deletion_heard_of_just_before_the_nodes_label_is_none(auditor: Auditor, world: FakeWorld) -> None:
    world.healthy_until["node-1"] = NOW + 2 + SETTLED_SECONDS / 2
    world.happenings = [deletion("worker", at=NOW + 2)]
    assert auditor.offences() == []


def test_what_was_before_the_drill_is_none(auditor: Auditor, world: FakeWorld) -> None:
    world.happenings = [deletion("worker", at=NOW - 1)]
    assert auditor.offences() == []


def test_a_permit_is_for_one_user_and_certain_pods(auditor: Auditor, world: FakeWorld, log: Path) -> None:
    world.happenings = [deletion("mine", at=NOW + 2), deletion("other", at=NOW + 2)]
    write(log, request("mine", OPERATOR, NOW + 1), request("other", OPERATOR, NOW + 1))
    auditor.permit("kuberay-operator", lambda pod: pod.name == "mine")
    assert [offence.split()[2] for offence in auditor.offences()] == ["ray/other"]
    auditor.begin(NOW)
    auditor.permit("somebody-else", lambda _: True)
    assert len(auditor.offences()) == 2, "permits of an earlier drill are none, nor are those of another user"


def test_a_refused_request_names_nobody(auditor: Auditor, world: FakeWorld, log: Path) -> None:
    world.happenings = [deletion("worker", at=NOW + 2)]
    write(log, request("worker", OPERATOR, NOW + 1, code=409), request("worker", "rehearsal-admin", NOW + 1.5))
    assert auditor.offences()[0].startswith("rehearsal-admin deleted")
