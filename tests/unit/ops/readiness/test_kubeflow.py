"""`ops check --live` finds Kubeflow in an existing EKS cluster, before HyperPod's chart conflicts with it."""

from collections.abc import Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

import config
from config.model import KubeflowPart
from ops.clients import Clients
from ops.commands.whole import app
from ops.readiness.kubeflow import findings
from tests.unit.support.fake_apis import Apis

NAMESPACES, KINDS = "/api/v1/namespaces", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS = {
    "meta.helm.sh/release-name": "hyperpod-dependencies",
    "meta.helm.sh/release-namespace": "kube-system",
}
EXISTING = config.load("existing-eks")


def items(*names: str, **annotations: str) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name, "annotations": annotations or None}} for name in names]}


def listing(*parts: KubeflowPart) -> config.EksEnvironment:
    """Return an environment that lists these parts."""
    assert EXISTING.eks.existing
    existing = EXISTING.eks.existing.model_copy(update={"kubeflow": parts})
    return EXISTING.model_copy(update={"eks": EXISTING.eks.model_copy(update={"existing": existing})})


def found(clients: Clients, *parts: KubeflowPart) -> Sequence[str]:
    return [finding.reason.partition(", which")[0] for finding in findings(listing(*parts), clients.kubernetes)]


@pytest.fixture
def kubeflow(apis: Apis) -> Apis:
    """Serve a cluster whose owner runs all of Kubeflow."""
    apis.kubernetes[NAMESPACES] = items("default", "kubeflow", "mpi-operator")
    apis.kubernetes[KINDS] = items("rayclusters.ray.io", "tfjobs.kubeflow.org", "mpijobs.kubeflow.org")
    return apis


def test_every_part_that_is_not_listed_is_named_with_what_shows_it(kubeflow: Apis, clients: Clients) -> None:
    name = "EKS cluster shared-platform has"
    assert found(clients) == [
        f"{name} namespace kubeflow",
        f"{name} namespace mpi-operator, CRD mpijobs.kubeflow.org",
        f"{name} CRD tfjobs.kubeflow.org",
    ]
    assert found(clients, "namespace", "mpi-operator") == [f"{name} CRD tfjobs.kubeflow.org"]
    assert found(clients, "namespace", "mpi-operator", "training-operator") == []


def test_parts_of_our_own_release_are_not_reported(apis: Apis, clients: Clients) -> None:
    apis.kubernetes[NAMESPACES] = items("kubeflow", "mpi-operator", **OURS)
    own, unmarked = items("mpijobs.kubeflow.org", **OURS), items("pytorchjobs.kubeflow.org")
    apis.kubernetes[KINDS] = {"items": own["items"] + unmarked["items"]}
    assert found(clients) == []


def test_a_release_of_that_name_elsewhere_is_another(apis: Apis, clients: Clients) -> None:
    apis.kubernetes[NAMESPACES] = items("kubeflow", **OURS | {"meta.helm.sh/release-namespace": "default"})
    apis.kubernetes[KINDS] = items()
    assert found(clients) == ["EKS cluster shared-platform has namespace kubeflow"]


def test_a_new_cluster_is_not_asked(apis: Apis, clients: Clients) -> None:
    apis.kubernetes.clear()
    assert list(findings(config.load("dev"), clients.kubernetes)) == []


def test_ops_check_live_warns_with_the_place_in_the_file(kubeflow: Apis) -> None:
    done = CliRunner().invoke(app, ["check", "--env", "existing-eks", "--live"])
    assert done.exit_code == 0, done.output
    assert "warning: tests/environments/existing-eks.yaml:" in done.stdout
    assert "eks.existing.kubeflow: [] (the default) is risky: EKS cluster shared-platform has namespace kubeflow" in (
        done.stdout
    )
    assert "Fix: add namespace to eks.existing.kubeflow: the release then leaves out that namespace." in done.stdout
    assert "the pinned chart has no switch for its namespace alone" in done.stdout


def test_ops_check_without_live_asks_nobody(kubeflow: Apis) -> None:
    done = CliRunner().invoke(app, ["check", "--env", "existing-eks"])
    assert (done.exit_code, kubeflow.tokens) == (0, [])
    assert "eks.existing.kubeflow" not in done.stdout


def test_ops_check_live_without_access_ends_with_2_and_says_why(kubeflow: Apis) -> None:
    kubeflow.refuse(403, "you may not list namespaces")
    done = CliRunner().invoke(app, ["check", "--env", "existing-eks", "--live"])
    assert done.exit_code == 2
    assert (
        "error: existing-eks: the Kubernetes API refuses this request (403): you may not list namespaces" in done.stderr
    )
