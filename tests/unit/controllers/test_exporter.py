"""The exporter's gauges: what Leases and nodes say, at each scrape."""

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from controllers.in_cluster.exporter import GAUGES, RunExporter
from controllers.job_run import RunState
from controllers.lease import STATE, TRAINS
from controllers.telemetry import serve
from tests.support.fake_kubernetes import BUILDS, LEASES, NODES, FakeKubernetes, Object
from tests.support.waiting import wait_until

SAVED = "2026-11-01T10:00:00+00:00"


def a_lease(name: str, *, trains: bool = True, **state: object) -> Object:
    """Return the Lease of a run as a supervisor writes it."""
    labels = {TRAINS: "rayml"} if trains else {}
    saved = {**asdict(RunState(attempt=1)), **state}
    metadata = {"name": name, "labels": labels, "annotations": {STATE: json.dumps(saved)}}
    return {"metadata": metadata, "spec": {"renewTime": "2026-11-01T10:05:00.000000Z"}}


def a_node(name: str, *, ready: str = "True", **labels: str) -> Object:
    named = {f"sagemaker.amazonaws.com/{key.replace('_', '-')}": value for key, value in labels.items()}
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": name, "labels": named}, "status": {"conditions": conditions}}


@pytest.fixture
def exporter(kubernetes: FakeKubernetes) -> Iterator[RunExporter]:
    """Return an exporter that starts with what the test puts into the fake API server."""
    kubernetes.live |= {LEASES, NODES, BUILDS}
    made = RunExporter(
        kubernetes.cluster, namespace="ray", builds="image-build", prices={"ml.g5.xlarge": 1.408, "m5.large": 0.096}
    )
    yield made
    made.stop()


def exported(exporter: RunExporter) -> dict[str, float]:
    exporter.start()
    wait_until(lambda: not exporter.deafness(), "the first lists")
    lines = [line for line in exporter.render().splitlines() if not line.startswith("#")]
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines)}


def test_a_run_that_trains_has_all_gauges_that_its_lease_knows(
    kubernetes: FakeKubernetes, exporter: RunExporter
) -> None:
    figures = {"step": 120.0, "steps_per_second": 2.5, "goodput": 93.1, "loss": 0.4}
    kubernetes.put(LEASES, a_lease("train-1", progress=100, progress_at=SAVED, figures=figures, stalled=1))
    found = exported(exporter)
    found.pop("exporter_errors_total")
    assert found == {
        'ray_run_trains{run="train-1"}': 1,
        'ray_run_progress{run="train-1"}': 100,
        'ray_run_failures_without_progress{run="train-1"}': 1,
        'ray_run_step{run="train-1"}': 120,
        'ray_run_steps_per_second{run="train-1"}': 2.5,
        'ray_run_goodput_ratio{run="train-1"}': pytest.approx(0.931),
        'ray_run_checkpoint_timestamp_seconds{run="train-1"}': 1793527200,
        'ray_run_lease_renewal_timestamp_seconds{run="train-1"}': 1793527500,
    }


def test_a_run_that_waits_does_not_train_and_one_without_figures_invents_none(
    kubernetes: FakeKubernetes, exporter: RunExporter
) -> None:
    kubernetes.put(LEASES, a_lease("waits", trains=False))
    found = exported(exporter)
    assert found['ray_run_trains{run="waits"}'] == 0
    assert {key.partition("{")[0] for key in found if key.startswith("ray_run_")} == {
        *("ray_run_trains", "ray_run_progress", "ray_run_failures_without_progress"),
        "ray_run_lease_renewal_timestamp_seconds",
    }


def test_runs_that_are_over_and_leases_of_others_have_no_gauges(
    kubernetes: FakeKubernetes, exporter: RunExporter
) -> None:
    kubernetes.put(LEASES, a_lease("over", exit_code=0))
    kubernetes.put(LEASES, {"metadata": {"name": "another-controller"}, "spec": {}})
    assert not [key for key in exported(exporter) if key.startswith("ray_run_")]


@pytest.mark.parametrize(
    ("health", "schedulable"), [("Schedulable", 1), ("Unschedulable", 0), ("UnschedulablePendingReplacement", 0)]
)
def test_a_nodes_health_is_hyperpods_word_for_it(
    kubernetes: FakeKubernetes, exporter: RunExporter, health: str, schedulable: int
) -> None:
    labels = {"instance_group_name": "gpus", "node_health_status": health, "deep_health_check_status": "Failed"}
    kubernetes.put(NODES, a_node("hyperpod-i-0", **labels))
    inside = 'node="hyperpod-i-0",instance_group="gpus"'
    found = exported(exporter)
    assert found[f'hyperpod_node_schedulable{{{inside},status="{health}"}}'] == schedulable
    assert found[f'hyperpod_node_deep_health_check{{{inside},status="Failed"}}'] == 1
    assert found[f"hyperpod_node_ready{{{inside}}}"] == 1


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_or_silent_is_not_ready_and_system_nodes_are_left_out(
    kubernetes: FakeKubernetes, exporter: RunExporter, status: str
) -> None:
    kubernetes.put(NODES, a_node("hyperpod-i-0", ready=status, instance_group_name="gpus"))
    kubernetes.put(NODES, a_node("system"))
    found = {key: value for key, value in exported(exporter).items() if key.startswith("hyperpod_")}
    assert found == {'hyperpod_node_ready{node="hyperpod-i-0",instance_group="gpus"}': 0}


def test_every_hyperpod_and_system_node_with_a_price_is_paid_for_also_a_lost_one(
    kubernetes: FakeKubernetes, exporter: RunExporter
) -> None:
    lost = a_node("lost", ready="Unknown", instance_group_name="gpus", node_health_status="Unschedulable")
    nodes = {
        "ml.g5.xlarge": (a_node("works", instance_group_name="gpus"), lost),
        "ml.p6.48xlarge": (a_node("without-a-price", instance_group_name="new"),),
        "m5.large": (a_node("system"), a_node("of-others")),
    }
    for kind, made in nodes.items():
        for node in made:
            node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = kind
            kubernetes.put(NODES, node)
    nodes["m5.large"][0]["metadata"]["labels"]["ray-on-hyperpod/node-role"] = "system"
    found = {key: value for key, value in exported(exporter).items() if "usd" in key}
    assert found == {
        'hyperpod_node_usd_per_hour{node="lost",instance_group="gpus",instance_type="ml.g5.xlarge"}': 1.408,
        'hyperpod_node_usd_per_hour{node="works",instance_group="gpus",instance_type="ml.g5.xlarge"}': 1.408,
        'hyperpod_node_usd_per_hour{node="system",instance_group="system nodes",instance_type="m5.large"}': 0.096,
    }


@pytest.mark.parametrize(
    ("newest", "failed"),
    [
        ({}, 0),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, 0),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, 0),
        ({"conditions": [{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]}, 1),
    ],
)
def test_only_the_newest_build_of_the_image_counts(
    kubernetes: FakeKubernetes, exporter: RunExporter, newest: Object, failed: int
) -> None:
    over = {"conditions": [{"type": "Failed", "status": "True"}]}
    for name, hour, status in (("first", 9, over), ("again", 10, newest)):
        metadata = {"name": name, "creationTimestamp": f"2026-11-01T{hour:02}:00:00Z"}
        kubernetes.put(BUILDS, {"metadata": metadata, "status": status})
    found = {key: value for key, value in exported(exporter).items() if key.startswith("ray_image")}
    assert found == {'ray_image_build_failed{build="again"}': failed}


def test_without_a_namespace_of_builds_none_is_asked_for(kubernetes: FakeKubernetes) -> None:
    kubernetes.live |= {LEASES, NODES, BUILDS}
    kubernetes.put(BUILDS, {"metadata": {"name": "other"}})
    exporter = RunExporter(kubernetes.cluster, namespace="ray")
    assert "ray_image_build_failed" not in str(exported(exporter))
    exporter.stop()
    assert not kubernetes.asked("GET", BUILDS)


def test_gauges_follow_the_objects(kubernetes: FakeKubernetes, exporter: RunExporter) -> None:
    kubernetes.put(LEASES, a_lease("train-1", progress=1))
    assert exported(exporter)['ray_run_progress{run="train-1"}'] == 1
    kubernetes.put(LEASES, a_lease("train-1", progress=2))
    wait_until(lambda: 'ray_run_progress{run="train-1"} 2\n' in exporter.render(), "the changed Lease")
    kubernetes.collections[LEASES].clear()
    wait_until(lambda: "ray_run_progress" not in exporter.render(), "the deleted Lease")


def test_every_family_has_its_help_and_comes_once(kubernetes: FakeKubernetes, exporter: RunExporter) -> None:
    for name in ("a", "b"):
        kubernetes.put(LEASES, a_lease(name, progress=1))
        kubernetes.put(NODES, a_node(name, instance_group_name="gpus", node_health_status="Schedulable"))
    exported(exporter)
    with_help = re.findall(r"^# HELP (\w+) ", exporter.render(), re.MULTILINE)
    assert len(with_help) == len(set(with_help))
    assert set(with_help) <= {*GAUGES, "exporter_errors_total"}


def test_an_api_server_that_refuses_is_counted_and_the_page_still_answers(
    kubernetes: FakeKubernetes, exporter: RunExporter
) -> None:
    kubernetes.refuse[f"GET {LEASES}"] = (403, "no")
    exporter.start()
    wait_until(lambda: "exporter_errors_total 0" not in exporter.render(), "a counted error")
    assert exporter.deafness() == "no answer from the API server for inf seconds"
    server = serve("127.0.0.1:0", exporter, {"/healthz": exporter.deafness})
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    server.shutdown()
