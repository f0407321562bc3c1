"""The drills' cluster on a real control plane: what it refuses to begin with, and what its auditor sees."""

import dataclasses
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from config import EksEnvironment
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from k8s_charts.controllers.replicas import REPLICAS
from k8s_charts.platform_objects import PlatformObjects
from k8s_charts.shared.names import REAPER
from rehearsal import paths
from rehearsal.drills import node_dies
from rehearsal.drills.cluster import cluster, context, kubectl, objects, started
from rehearsal.drills.cluster.auditor import Auditor
from rehearsal.drills.cluster.subject import wait
from rehearsal.drills.cluster.world import ClusterHistory
from rehearsal.drills.perform import perform

AMOUNTS = {"cpu": "8", "memory": "30Gi", "pods": "14"}


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The drills' own directory, apart from that of a rehearsal in this checkout."""
    monkeypatch.setattr(context, "DRILLS_ON_KUBERNETES", tmp_path)
    return tmp_path


def performed() -> tuple[int, str]:
    """Exit code and words of the drill `node-dies` of `small`."""
    printed = io.StringIO()
    code = perform([node_dies.DRILL], "small", Console(file=printed, width=200))
    return code, printed.getvalue()


@pytest.mark.sampled(1, of="broken product in the drills")
def test_a_feature_gate_that_kuberay_does_not_know_fails_the_drills(
    monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    given = objects.platform_objects

    def wrong(environment: EksEnvironment) -> PlatformObjects:
        made = given(environment)
        gates = [{"name": "RayClusterStatusCondition", "enabled": True}]
        release = dataclasses.replace(made.kuberay, values={**made.kuberay.values, "featureGates": gates})
        return dataclasses.replace(made, kuberay=release)

    monkeypatch.setattr(objects, "platform_objects", wrong)
    code, printed = performed()
    assert code == 1
    assert "kuberay/kuberay-operator keeps restarting" in printed
    assert "unrecognized feature gate: RayClusterStatusCondition" in printed


@pytest.mark.sampled(1, of="broken product in the drills")
def test_a_right_that_the_reaper_lacks_fails_the_drills(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    def lame(*charts: Any) -> list[Object]:
        made = kubectl.rendered(*charts)
        for item in made:
            if (item["kind"], item["metadata"]["name"]) == ("Role", REAPER):
                item["rules"][0]["verbs"].remove("delete")
        return made

    def impatient(plane: ControlPlane, namespace: str, deployment: str) -> None:
        if deployment == REAPER:
            wait("the word of each replica", lambda: said_by(plane, "missing") == REPLICAS)
            started.wait_started(plane, namespace, deployment, timeout=0)
        else:
            started.wait_started(plane, namespace, deployment)

    monkeypatch.setattr(cluster, "rendered", lame)
    monkeypatch.setattr(cluster, "wait_started", impatient)
    code, printed = performed()
    assert code == 1
    assert "kuberay/ray-reaper is not available" in printed
    assert '"missing": ["delete pods"]' in printed


def said_by(plane: ControlPlane, word: str) -> int:
    """How many of the reaper's replicas have said a word."""
    return sum(word in log.read_text() for log in (plane.logs / "pods").glob(f"*{REAPER}*.log"))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    made = ControlPlane(tmp_path, binaries.ensure(paths.BINARIES, print), name="audited")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[ClusterHistory]:
    made = ClusterHistory(plane.api)
    made.start()
    yield made
    made.stop()


def pod_on(node: str) -> Mapping[str, Any]:
    containers = [{"name": "main", "image": "example.invalid/image:1"}]
    return {"metadata": {"name": f"pod-{node}"}, "spec": {"nodeName": node, "containers": containers}}


def test_the_auditor_sees_who_deletes_a_pod_on_a_healthy_node_and_only_that(
    plane: ControlPlane, world: ClusterHistory
) -> None:
    nodes, pods = Nodes(plane.api), "/api/v1/namespaces/default/pods"
    for node in ("well", "sick"):
        nodes.add(node, allocatable=AMOUNTS, capacity=AMOUNTS)
    wait("both nodes", lambda: world.healthy_nodes() == {"well", "sick"})
    auditor = Auditor(world, plane.pod_deletions)
    auditor.begin(0)
    for node in ("well", "sick"):
        plane.api.create(pods, dict(pod_on(node)))
    nodes.set_label("sick", "sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReplacement")
    wait("one node", lambda: world.healthy_nodes() == {"well"})
    wait("both pods", lambda: len(world.pods("default")) == 2)
    assert auditor.offences() == []
    for node in ("well", "sick"):
        plane.api.delete(f"{pods}/pod-{node}")
    wait("no pod", lambda: not world.pods("default"))
    assert auditor.offences() == ["rehearsal-admin deleted default/pod-well on well, which was healthy"]
