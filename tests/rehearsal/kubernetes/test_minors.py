"""A live control plane becomes the next minor of Kubernetes, under KubeRay and a RayCluster.

Another minor than the usual one costs minutes of processor time to build, so only `make test-minors` runs these.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_account.context import Account
from embedded_account.kubernetes.api import KubernetesClientError
from embedded_account.kubernetes.building import binaries as built
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes, NodeSpec
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import service_of
from embedded_account.testing.clients import Clients
from embedded_account.testing.cluster import ACCELERATED, GENERAL, Kubectl
from embedded_account.testing.eks_setup import set_up
from tests.rehearsal.kubernetes.cluster import install_operator, ray_cluster
from tests.rehearsal.kubernetes.test_kuberay import status_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.minors
MINORS = built.KUBERNETES_MINORS
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
TRAININGS = "/apis/example.invalid/v1/namespaces/default/trainings"


def training_kind() -> dict[str, object]:
    """Return a kind with a rule in CEL."""
    workers = {"type": "object", "properties": {"workers": {"type": "integer"}}}
    rule = {"rule": "self.workers > 0", "message": "a training needs workers"}
    spec = {**workers, "x-kubernetes-validations": [rule]}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "trainings", "singular": "training", "kind": "Training"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "trainings.example.invalid"},
        "spec": {"group": "example.invalid", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def training(name: str, *, workers: int) -> dict[str, object]:
    return {
        "apiVersion": "example.invalid/v1",
        "kind": "Training",
        "metadata": {"name": name},
        "spec": {"workers": workers},
    }


@pytest.fixture(params=MINORS[:-1])
def old(request: pytest.FixtureRequest) -> str:
    """Return a minor that another one follows."""
    minor: str = request.param
    return minor


@pytest.fixture
def plane(old: str, tmp_path: Path, binaries: Binaries) -> Iterator[ControlPlane]:
    """Start a control plane of this minor."""
    plane = ControlPlane(tmp_path, binaries, name="minors", kubernetes=old)
    plane.start()
    yield plane
    plane.stop()


def test_a_live_control_plane_becomes_the_next_minor_and_keeps_its_objects_and_pods(
    plane: ControlPlane, old: str, binaries: Binaries
) -> None:
    new = MINORS[MINORS.index(old) + 1]
    kubectl, nodes = Kubectl(plane), Nodes(plane.api)
    nodes.add_all(
        NodeSpec(name=f"{group}-before", labels={"group": group}, allocatable=size, capacity=size)
        for group, size in {"system": GENERAL, "head": GENERAL, "gpu": ACCELERATED}.items()
    )
    kubectl.apply(training_kind())
    install_operator(kubectl, binaries)
    kubectl.apply(training("kept", workers=2), ray_cluster("rayml", workers=1))
    wait_until(lambda: status_of(kubectl, "rayml").get("state") == "ready", "RayCluster ready")
    endpoint, kept, pods = plane.endpoint, plane.api.get(f"{TRAININGS}/kept"), ray_pods(kubectl)
    assert_runs(plane, old)

    plane.upgrade(new)

    assert_runs(plane, new)
    assert plane.endpoint == endpoint
    assert plane.api.get(f"{TRAININGS}/kept") == kept
    nodes.add("gpu-after", labels={"group": "gpu"}, allocatable=ACCELERATED, capacity=ACCELERATED)
    wait_until(lambda: all(map(nodes.is_ready, nodes.names())), "heartbeats of all nodes")
    kubelets = {
        node["metadata"]["name"].rpartition("-")[2]: node["status"]["nodeInfo"]["kubeletVersion"]
        for node in kubectl.get("nodes")["items"]
    }
    assert kubelets == {
        "before": f"{built.kubernetes_version(old)}-kwok",
        "after": f"{built.kubernetes_version(new)}-kwok",
    }
    # The operator, the controllers and the scheduler work: one worker more.
    kubectl("patch", "raycluster", "rayml", "--type=json", f"--patch={more_workers(2)}")
    wait_until(lambda: status_of(kubectl, "rayml").get("availableWorkerReplicas") == 2, "a second worker")
    assert pods.items() <= ray_pods(kubectl).items(), "the pods of before are the same"


def test_an_update_of_a_clusters_version_runs_the_next_minor_and_nodes_follow_with_their_group(
    account: Account, clients: Clients, binaries: Binaries, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = MINORS[MINORS.index(old) + 1]
    monkeypatch.setattr(account, "binaries", binaries.directory)
    monkeypatch.setattr(account, "clusters", ClusterHost(account))
    eks = set_up(account, clients)
    try:
        endpoint = eks.create(version=old)["endpoint"]
        eks.create_nodegroup()
        plane = account.clusters.get("c").control_plane
        nodes = Nodes(plane.api)
        wait_until(lambda: len(nodes.names()) == 2, "the node group's nodes")
        update = eks.api.update_cluster_version(name="c", version=new)["update"]
        service_of(account).wait_until_active("c")
        assert eks.api.describe_update(name="c", updateId=update["id"])["update"]["status"] == "Successful"
        found = eks.api.describe_cluster(name="c")["cluster"]
        assert (found["version"], found["status"], found["endpoint"]) == (new, "ACTIVE", endpoint)
        assert plane.api.get("/version")["gitVersion"] == built.kubernetes_version(new)
        wait_until(lambda: all(map(nodes.is_ready, nodes.names())), "heartbeats of all nodes")
        # The account follows namespaces to give an access entry its rights in each.
        role = eks.role_arn
        eks.api.create_access_entry(clusterName="c", principalArn=role)
        scope = {"type": "namespace", "namespaces": ["later"]}
        eks.api.associate_access_policy(clusterName="c", principalArn=role, policyArn=VIEW, accessScope=scope)
        plane.api.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "later"}})
        bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/later/rolebindings"
        wait_until(lambda: plane.api.get(bindings)["items"], "the access entry's rights in a new namespace")
    finally:
        account.clusters.stop("c")


def assert_runs(plane: ControlPlane, minor: str) -> None:
    """Require that this minor answers, with what the project relies on."""
    assert plane.api.get("/version")["gitVersion"] == built.kubernetes_version(minor)
    with pytest.raises(KubernetesClientError, match="a training needs workers"):
        plane.api.create(TRAININGS, training("without", workers=0))
    # 50 seconds since 1.32; docs/explain/recovery.md's times rest on it. Our own flag shortens it.
    pid = (plane.directory / "run" / "kube-controller-manager.pid").read_text().strip()
    program = Path(f"/proc/{pid}/exe").resolve()
    printed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    [line] = (line for line in printed.splitlines() if "--node-monitor-grace-period duration" in line)
    assert line.endswith("(default 50s)")


def ray_pods(kubectl: Kubectl) -> dict[str, str]:
    """Return the RayCluster's pods: name → uid."""
    pods = kubectl.get("pods", "-l", "ray.io/cluster=rayml")["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def more_workers(count: int) -> str:
    return f'[{{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": {count}}}]'
