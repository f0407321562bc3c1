"""`ops` on a rehearsal's simulated pods: each command repeats the message of `kubectl logs`, with advice."""

from typing import Any

import pytest
from kubernetes.client import ApiException
from typer.testing import CliRunner, Result

from ops.commands.whole import app
from ops.readiness import simulated
from tests.unit.ops.change.test_scale import ray_pod, running  # noqa: F401 - a fixture
from tests.unit.ops.jobs.test_job import cluster  # noqa: F401 - a fixture
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import WORKERS

PODS = "/api/v1/namespaces/ray/pods"
HEAD = "rayml-head-1"
SAID = f"pod ray/{HEAD} is simulated: no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"
HEAD_POD = {
    "metadata": {"name": HEAD, "namespace": "ray", "labels": {"ray.io/cluster": "rayml", "ray.io/node-type": "head"}},
    "spec": {"nodeName": "hyperpod-i-1", "containers": []},
    "status": {"phase": "Running"},
}


def ops(*arguments: str) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, list(arguments))


def simulate_head(apis: Apis) -> None:
    """Serve a head whose node refuses port-forward, exec and logs, as the rehearsal's podserver does."""
    apis.kubernetes[PODS] = {"items": [HEAD_POD]}
    apis.kubernetes[f"{PODS}/{HEAD}/portforward"] = (400, f"{SAID}\n")
    apis.kubernetes[f"{PODS}/{HEAD}/exec"] = (400, f"{SAID}\n")
    apis.kubernetes[f"{PODS}/{HEAD}/log"] = (400, {"kind": "Status", "message": f"{SAID}\n"})


@pytest.mark.parametrize(
    "arguments",
    [("scale", WORKERS, "2", "--dry-run"), ("update-software", "--dry-run"), ("update-software", "--group", WORKERS)],
)
def test_a_change_is_refused_because_the_head_is_simulated(running: Apis, arguments: tuple[str, ...]) -> None:  # noqa: F811
    simulate_head(running)
    running.kubernetes["/api/v1/pods"] = {"items": [ray_pod(f"worker-{n}", n) for n in range(1, 5)]}
    result = ops(*arguments, "--env", "dev")
    assert result.exit_code == 1, result.output
    assert SAID in result.stderr
    assert "--force" in result.stderr
    assert "Handshake" not in result.output
    assert running.changes == []


@pytest.mark.parametrize("way", [(), ("--direct",), ("--in-head",)])
def test_a_job_is_not_submitted_to_a_simulated_head(cluster: Apis, way: tuple[str, ...]) -> None:  # noqa: F811
    simulate_head(cluster)
    result = ops("job", "submit", *way, "--env", "dev", "--", "true")
    assert result.exit_code == 1, result.output
    assert SAID in result.stderr
    assert cluster.changes == []


def test_jobs_of_a_simulated_head_are_not_listed(cluster: Apis) -> None:  # noqa: F811
    simulate_head(cluster)
    result = ops("job", "list", "--direct", "--env", "dev")
    assert result.exit_code == 1
    assert SAID in result.stderr


@pytest.mark.parametrize("page", [(), ("tensorboard",), ("serve",)])
def test_no_page_of_a_simulated_head_is_served(cluster: Apis, page: tuple[str, ...]) -> None:  # noqa: F811
    simulate_head(cluster)
    result = ops("dashboard", *page, "--env", "dev")
    assert result.exit_code == 1
    assert SAID in result.stderr


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("ray", "RayCluster rayml has no running head. Fix: see `ops status` for the reason"),
        ("serve", "RayCluster rayml has no running head. Fix: see `ops status` for the reason"),
        ("prometheus", "Prometheus does not run. Fix: kubectl get pods -n prometheus-system"),
        ("alertmanager", "Alertmanager does not run. Fix: kubectl get pods -n prometheus-system"),
    ],
)
def test_page_without_a_running_pod_is_refused(cluster: Apis, page: str, says: str) -> None:  # noqa: F811
    cluster.kubernetes["/api/v1/namespaces/prometheus-system/pods"] = {"items": []}
    result = ops("dashboard", page, "--env", "dev")
    assert result.exit_code == 1
    assert says in result.stderr


def test_a_head_that_runs_is_no_obstacle(cluster: Apis) -> None:  # noqa: F811
    cluster.kubernetes[PODS] = {"items": [HEAD_POD]}
    cluster.kubernetes[f"{PODS}/{HEAD}/log"] = "first line\n"
    result = ops("job", "submit", "--detach", "--env", "dev", "--", "true")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("answer", [(403, {"message": "forbidden"}), (404, {"message": "gone"}), (500, "oops")])
def test_a_head_whose_log_cannot_be_read_is_no_obstacle(cluster: Apis, answer: Any) -> None:  # noqa: F811
    cluster.kubernetes[PODS] = {"items": [HEAD_POD]}
    cluster.kubernetes[f"{PODS}/{HEAD}/log"] = answer
    assert ops("job", "submit", "--detach", "--env", "dev", "--", "true").exit_code == 0


def test_only_the_sentence_of_a_rehearsal_counts() -> None:
    assert (
        simulated.explanation(ApiException(status=0, reason=f"Handshake status 400 -+-+- {{}} -+-+- {SAID}\n")) == SAID
    )
    assert simulated.explanation(f"container ray-head of {SAID}") == f"container ray-head of {SAID}"
    assert simulated.explanation(ApiException(status=404, reason="Not Found")) == ""
    assert simulated.explanation("") == ""
