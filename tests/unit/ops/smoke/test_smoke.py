"""`ops smoke`: what it expects of each worker, its verdict, its data, and one message for each error."""

import ast
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import create_autospec

import pytest
from kubernetes.client import ApiException
from typer.testing import CliRunner, Result

import config
from config.model import InCluster, Observability
from ops.commands.whole import app
from ops.jobs.package import JOBS
from ops.jobs.run import ExistingRun
from ops.jobs.runs import Runs
from ops.smoke import gpu_health
from ops.smoke.expected import Expected, ExpectedWorker, expected
from ops.smoke.run import MARK, _wait
from ops.smoke.verdict import evaluate
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import PODS, RAY_CLUSTER, RAY_CLUSTERS

WANTED = Expected(2, (ExpectedWorker("w-1", "n-1", "10.0.0.1", 8, 32), ExpectedWorker("w-2", "n-2", "10.0.0.2", 8, 32)))


def ops(*arguments: str) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["smoke", *arguments])


def part(address: str, **changes: Any) -> dict[str, Any]:
    whole = {"device": "H100", "gpus": 8, "seconds": 0.002, "gigabytes_per_second": 200.0, "network": ["OFI"]}
    return {"address": address, **whole, **changes}


def result(*parts: dict[str, Any], problems: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"workers": list(parts), "problems": list(problems)}


def test_all_workers_with_all_gpus_over_efa_pass() -> None:
    verdict = evaluate("rayml", WANTED, result(part("10.0.0.1"), part("10.0.0.2")))
    assert verdict.problems == ()
    assert [(row.node, row.gpus, row.seconds) for row in verdict.rows] == [("n-1", 8, 0.002), ("n-2", 8, 0.002)]


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (result(part("10.0.0.1")), "worker w-2 on n-2 took no part"),
        (result(part("10.0.0.1"), part("10.0.0.2", gpus=7)), "worker w-2 on n-2 has 7 of 8 GPUs"),
        (
            result(part("10.0.0.1", network=["Socket"]), part("10.0.0.2")),
            "NCCL does not use EFA on n-1: its log has no NET/OFI, but Socket",
        ),
        (result(part("10.0.0.1", network=[]), part("10.0.0.2")), "no NET/OFI, but no network"),
        (result(part("10.0.0.1"), part("10.0.0.2"), problems=("nccl: a wrong sum",)), "nccl: a wrong sum"),
    ],
)
def test_what_is_wrong_is_said_with_its_node(found: dict[str, Any], problem: str) -> None:
    [said] = evaluate("rayml", WANTED, found).problems
    assert problem in said


def test_worker_without_a_pod_is_missed() -> None:
    less = Expected(3, WANTED.workers)
    found = evaluate("rayml", less, result(part("10.0.0.1"), part("10.0.0.2")))
    assert found.problems == ("only 2 of 3 workers are running",)


def test_bandwidth_is_compared_with_the_network_only_between_nodes() -> None:
    pods = [ExpectedWorker(f"w-{n}", node, f"10.0.0.{n}", 8, 32, 3200) for n, node in enumerate(("n-1", "n-1", "n-2"))]
    three = evaluate("rayml", Expected(3, tuple(pods)), result(*(part(pod.address) for pod in pods)))
    assert [row.nominal for row in three.rows] == [400, 400, 400]
    alone = evaluate("rayml", Expected(2, tuple(pods[:2])), result(*(part(pod.address) for pod in pods[:2])))
    assert [row.nominal for row in alone.rows] == [None, None]


def test_table_shows_the_share_of_the_nominal_bandwidth(workers: Apis, ended: Callable[[dict[str, Any]], None]) -> None:
    group = workers.kubernetes[RAY_CLUSTER]["spec"]["workerGroupSpecs"][0]
    pods = workers.kubernetes[PODS]["items"]
    second = {"metadata": pods[0]["metadata"] | {"name": "w-3"}, "spec": pods[0]["spec"] | {"nodeName": "n-2"}}
    pods.append(second | {"status": {"phase": "Running", "podIP": "10.0.0.3"}})
    group["replicas"] = 2
    ended(result(part("10.0.0.1"), part("10.0.0.3", gigabytes_per_second=300.0)))
    shown = CliRunner(env={"OPS_ENV": "dev", "COLUMNS": "200"}).invoke(app, ["smoke"]).stdout
    assert "50% of 400" in shown
    assert "75% of 400" in shown


def test_efa_matters_only_to_gpus() -> None:
    wanted = Expected(1, (ExpectedWorker("w-1", "n-1", "10.0.0.1", 0, 1),))
    assert evaluate("rayml", wanted, result(part("10.0.0.1", gpus=0, network=["gloo"]))).problems == ()


def test_short_silence_of_the_api_server_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.smoke.run._POLL_SECONDS", 0)
    runs = create_autospec(Runs, instance=True)
    ended = ExistingRun("smoke-1", "rayml", "", None, True, {"phase": "succeeded"})
    runs.get.side_effect = [ApiException(503), ApiException(503), ended]
    said: list[str] = []
    _wait(runs, "smoke-1", said.append, PATIENCE_SECONDS)
    assert [line.rpartition(",")[0] for line in said] == ["smoke-1: submitted", "smoke-1: succeeded"]


@pytest.fixture
def workers(apis: Apis) -> Apis:
    """Serve the RayCluster of `dev` with two of four workers: one runs, one is being deleted."""
    groups = [{"groupName": "gpu-group", "replicas": 4}]
    apis.kubernetes[RAY_CLUSTERS] = {"items": [{"metadata": {"name": "rayml"}}]}
    apis.kubernetes[RAY_CLUSTER] = {"metadata": {"name": "rayml"}, "spec": {"workerGroupSpecs": groups}}
    metadata = {"name": "w-1", "labels": {"ray.io/group": "gpu-group"}}
    spec, status = {"nodeName": "n-1", "containers": []}, {"phase": "Running", "podIP": "10.0.0.1"}
    gone = metadata | {"name": "w-2", "deletionTimestamp": "2026-11-01T10:00:00Z"}
    pods = [{"metadata": each, "spec": spec, "status": status} for each in (metadata, gone)]
    apis.kubernetes[PODS] = {"items": pods}
    return apis


def test_devices_are_those_of_the_instance_type_unless_the_file_says_otherwise(workers: Apis, clients: Any) -> None:
    dev = config.load("dev")
    wanted = expected(dev, clients.kubernetes, "rayml")
    assert (wanted.wanted, wanted.workers) == (4, (ExpectedWorker("w-1", "n-1", "10.0.0.1", 8, 32, 3200),))
    [cluster] = dev.ray.clusters
    fewer = cluster.workers[0].model_copy(update={"accelerators": 2, "efa": 0})
    changed = dev.ray.model_copy(update={"clusters": (cluster.model_copy(update={"workers": (fewer,)}),)})
    [worker] = expected(dev.model_copy(update={"ray": changed}), clients.kubernetes, "rayml").workers
    assert (worker.gpus, worker.efa) == (2, 0)


@pytest.fixture
def ended(workers: Apis, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets the result of the job: the way of a job is tested on a real control plane."""

    def set_result(found: dict[str, Any]) -> None:
        monkeypatch.setattr("ops.smoke.run.run", lambda *_, **__: found)

    return set_result


def test_data_are_as_documented(ended: Callable[[dict[str, Any]], None], workers: Apis) -> None:
    workers.kubernetes[RAY_CLUSTER]["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    ended(result(part("10.0.0.1")))
    shown = ops("-o", "json")
    assert shown.exit_code == 0, shown.output
    data = json.loads(shown.stdout)
    assert_same_shape(data, documented("smoke"))
    assert data["passed"]
    table = ops().stdout
    assert "8 of 8" in table
    assert "2.0 ms" in table
    assert "dev passed: 1 workers took part" in table


def test_failure_ends_with_1_and_names_the_cluster(ended: Callable[[dict[str, Any]], None]) -> None:
    ended(result())
    failed = ops("-o", "json")
    assert failed.exit_code == 1
    assert not json.loads(failed.stdout)["passed"]
    assert "error: the check failed: rayml: worker w-1 on n-1 took no part; rayml: only 1 of 4" in failed.stderr


def test_faults_of_gpus_fail_with_their_node_and_others_are_not_meant() -> None:
    broken = {"node": "n-1", "gpu": "3", "xid": "79"}
    found = gpu_health.health_of(
        [{"node": "n-1"}, {"node": "n-9"}], {"XidError": [broken, broken | {"node": "n-9"}]}, {"n-1", "n-2"}
    )
    assert found == gpu_health.GpuHealth(frozenset({"n-1"}), ("XidError 79 on GPU 3 of n-1",))
    assert (
        evaluate("rayml", WANTED, result(part("10.0.0.1"), part("10.0.0.2"))).with_gpus(found).problems
        == found.problems
    )


@pytest.mark.parametrize(
    ("health", "exit_code", "said"),
    [
        (gpu_health.GpuHealth(frozenset({"n-1"}), ()), 0, "rayml: GPUs of 1 of 1 nodes watched, 0 faults"),
        (gpu_health.GpuHealth(frozenset(), ()), 0, "rayml: the exporter on n-1 does not answer"),
        (gpu_health.GpuHealth(frozenset({"n-1"}), ("RowRemapFailed on GPU 0 of n-1",)), 1, "1 faults"),
        (None, 0, "rayml: the health of its GPUs is unknown: nobody watches it: `observability.in_cluster` is off"),
    ],
)
def test_health_of_gpus_is_told_and_a_fault_ends_with_1(
    request: pytest.FixtureRequest, health: gpu_health.GpuHealth | None, exit_code: int, said: str
) -> None:
    workers, ended = request.getfixturevalue("workers"), request.getfixturevalue("ended")
    workers.kubernetes[RAY_CLUSTER]["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    ended(result(part("10.0.0.1")))
    if health:
        request.getfixturevalue("monkeypatch").setattr(gpu_health, "health", lambda *_: health)
    shown = ops()
    assert (shown.exit_code, said in shown.stdout) == (exit_code, True), shown.output


def test_prometheus_that_cannot_be_asked_is_told_and_fails_nothing(apis: Apis, clients: Any) -> None:
    dev = config.load("dev")
    watched = dev.model_copy(update={"observability": Observability(in_cluster=InCluster())})
    pods = "/api/v1/namespaces/prometheus-system/pods"
    apis.kubernetes[pods] = {"items": []}
    missing = gpu_health.health(watched, clients.kubernetes, {"n-1"})
    assert missing.unknown == "Prometheus does not answer: namespace prometheus-system has no running pod of it"
    apis.kubernetes[pods] = (403, "no")
    refused = gpu_health.health(watched, clients.kubernetes, {"n-1"})
    assert (refused.problems, (refused.unknown or "").startswith("Prometheus does not answer: ")) == ((), True)


def test_errors_are_one_message_each(workers: Apis) -> None:
    unknown = ops("--cluster", "other")
    assert (unknown.exit_code, unknown.stderr) == (
        2,
        "error: --cluster: 'other' is invalid: environment dev has no such RayCluster. Allowed: rayml\n",
    )
    workers.kubernetes[RAY_CLUSTERS] = {"items": []}
    missing = ops()
    assert (missing.exit_code, "there is no RayCluster in namespace ray. Fix: " in missing.stderr) == (1, True)
    workers.refuse(403, "no")
    denied = ops()
    assert (denied.exit_code, "Fix: list your IAM role under access.submitters" in denied.stderr) == (2, True)
    assert ops("--env", "nowhere").exit_code == 2


def test_result_is_found_by_the_mark_that_the_job_prints() -> None:
    """The job imports nothing of `ops`, and `ops` nothing of the job."""
    tree = ast.parse((JOBS / "smoke.py").read_text())
    [mark] = [
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and [target.id for target in node.targets if isinstance(target, ast.Name)] == ["MARK"]
    ]
    assert mark == MARK
