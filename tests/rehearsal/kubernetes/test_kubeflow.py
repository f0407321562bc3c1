"""HyperPod's chart on a cluster whose owner has Kubeflow: by the real Helm, called as CDK's function calls it."""

import json
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

import kubernetes
import pytest

from config import EksEnvironment, load
from config.model import KubeflowPart
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.testing.cluster import Kubectl
from k8s_charts.helm.hyperpod_dependencies import RELEASE, hyperpod_dependencies_release
from ops.readiness.kubeflow import findings
from rehearsal import stand_ins
from tests.support.waiting import wait_until

pytestmark = pytest.mark.product

OWNERS = ("kubeflow", "mpi-operator")
PARTS: tuple[KubeflowPart, ...] = ("namespace", "mpi-operator")


class Helm:
    """Helm with the stand-in of HyperPod's chart, whose namespaces are the publisher's."""

    def __init__(self, control_plane: ControlPlane, directory: Path, binaries: Binaries) -> None:
        self._control_plane = control_plane
        self._directory = directory
        stand_ins.build(directory, binaries)

    def install(self, kubeflow: Collection[KubeflowPart]) -> subprocess.CompletedProcess[str]:
        release = hyperpod_dependencies_release(region="us-west-2", kubeflow=kubeflow)
        values = self._directory / "values.json"
        values.write_text(json.dumps(release.values))
        return self._run("upgrade", RELEASE, str(self._directory / release.chart), "--install", "--values", str(values))

    def uninstall(self) -> subprocess.CompletedProcess[str]:
        return self._run("uninstall", RELEASE)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(self._control_plane.binaries["helm"]), *words, "--namespace", "kube-system"]
        argv += ["--kubeconfig", str(self._control_plane.admin_kubeconfig)]
        environment = {"HOME": str(self._directory), "PATH": "/usr/bin:/bin"}
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def helm(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, binaries: Binaries) -> Helm:
    return Helm(control_plane, tmp_path_factory.mktemp("charts"), binaries)


@pytest.fixture(scope="module")
def owners(kubectl: Kubectl) -> Iterator[dict[str, str]]:
    """The owner's namespaces, and something in each; their ids by their names."""
    for name in OWNERS:
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": name}})
    yield ids(kubectl)
    kubectl("delete", "namespace", *OWNERS, "--wait=false")


def ids(kubectl: Kubectl) -> dict[str, str]:
    """Return the ids of the owner's namespaces that are there to stay, with their content."""
    found = {name: kubectl.get("namespace", name)["metadata"] for name in OWNERS}
    for name in OWNERS:
        kubectl.get("-n", name, "configmap", "theirs")
    return {name: metadata["uid"] for name, metadata in found.items() if "deletionTimestamp" not in metadata}


def environment(kubeflow: tuple[KubeflowPart, ...]) -> EksEnvironment:
    existing = load("existing-eks")
    assert existing.eks.existing
    listed = existing.eks.existing.model_copy(update={"kubeflow": kubeflow})
    return existing.model_copy(update={"eks": existing.eks.model_copy(update={"existing": listed})})


def warned(control_plane: ControlPlane, kubeflow: tuple[KubeflowPart, ...]) -> list[str]:
    with kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig)) as client:
        return [finding.fix.partition(":")[0] for finding in findings(environment(kubeflow), client)]


def test_a_release_that_meets_the_owners_namespaces_is_refused_and_its_destroy_leaves_them(
    helm: Helm, owners: dict[str, str], kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    assert warned(control_plane, ()) == [f"add {part} to eks.existing.kubeflow" for part in PARTS]
    installed = helm.install(())
    assert installed.returncode != 0
    assert 'Namespace "' in installed.stderr
    assert "exists and cannot be imported into the current release" in installed.stderr
    # What CloudFormation's rollback does.
    assert "release: not found" in helm.uninstall().stderr
    assert ids(kubectl) == owners


def test_a_release_without_what_the_owner_has_is_installed_and_its_destroy_leaves_that(
    helm: Helm, owners: dict[str, str], kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    installed = helm.install(PARTS)
    assert installed.returncode == 0, installed.stderr
    assert warned(control_plane, PARTS) == []
    removed = helm.uninstall()
    assert removed.returncode == 0, removed.stderr
    wait_until(
        lambda: "aws-hyperpod" not in kubectl("get", "namespaces", "-o", "name"), "the release's own namespace to go"
    )
    assert ids(kubectl) == owners
