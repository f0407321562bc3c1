import pytest

from embedded_account.kubernetes.api import KubernetesClientError
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes, NodeSpec
from embedded_account.testing.cluster import GENERAL, Kubectl, pod
from embedded_account.testing.waiting import KUBECTL_PATIENCE, wait_until


def phase_of(kubectl: Kubectl, name: str) -> str:
    return str(kubectl.get("pod", name)["status"]["phase"])


def taints_of(kubectl: Kubectl, name: str) -> set[str]:
    return {taint["key"] for taint in kubectl.get("node", name)["spec"].get("taints", ())}


def test_node_joins_with_everything_that_its_kubelet_would_report(nodes: Nodes, kubectl: Kubectl) -> None:
    taint = {"key": "example.com/checking", "value": "yes", "effect": "NoSchedule"}
    nodes.add(
        "described",
        labels={"node.kubernetes.io/instance-type": "ml.m5.2xlarge"},
        annotations={"example.com/note": "kept"},
        taints=[taint],
        capacity=GENERAL | {"memory": "32Gi"},
        allocatable=GENERAL,
        provider_id="aws:///usw2-az1/sagemaker/cluster/ml-cluster-abc-i-0123456789abcdef0",
    )
    wait_until(lambda: nodes.is_ready("described"), "node Ready")
    node = kubectl.get("node", "described")
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "ml.m5.2xlarge"
    assert node["metadata"]["annotations"]["example.com/note"] == "kept"
    assert taint in node["spec"]["taints"]
    assert node["spec"]["providerID"].endswith("i-0123456789abcdef0")
    assert node["status"]["allocatable"] == GENERAL
    assert node["status"]["capacity"]["memory"] == "32Gi"
    nodes.set_label("described", "example.com/health", "Schedulable")
    assert kubectl.get("node", "described")["metadata"]["labels"]["example.com/health"] == "Schedulable"
    nodes.set_label("described", "example.com/health", None)
    assert "example.com/health" not in kubectl.get("node", "described")["metadata"]["labels"]
    nodes.remove("described")
    assert "described" not in nodes.names()


def test_node_cannot_join_twice(nodes: Nodes) -> None:
    with pytest.raises(KubernetesClientError, match="409"):
        nodes.add("head-1", capacity=GENERAL, allocatable=GENERAL)


def test_pod_runs_on_the_node_that_it_selects(nodes: Nodes, kubectl: Kubectl) -> None:
    kubectl.apply(pod("placed", nodeSelector={"group": "head"}))
    wait_until(lambda: phase_of(kubectl, "placed") == "Running", "pod Running")
    assert kubectl.get("pod", "placed")["spec"]["nodeName"] == "head-1"
    kubectl("delete", "pod", "placed", KUBECTL_PATIENCE)


def test_pod_that_requests_more_than_is_allocatable_stays_pending(nodes: Nodes, kubectl: Kubectl) -> None:
    asked = {"requests": {"cpu": "9"}}
    container = {"name": "main", "image": "example.invalid/image:1", "resources": asked}
    kubectl.apply(pod("too-big", nodeSelector={"group": "head"}, containers=[container]))

    def unschedulable() -> bool:
        conditions = kubectl.get("pod", "too-big")["status"].get("conditions", [])
        return any("Insufficient cpu" in condition.get("message", "") for condition in conditions)

    wait_until(unschedulable, "pod refused for lack of cpu")
    assert phase_of(kubectl, "too-big") == "Pending"
    kubectl("delete", "pod", "too-big", KUBECTL_PATIENCE)


def test_job_completes(nodes: Nodes, kubectl: Kubectl) -> None:
    kubectl("create", "job", "build", "--image=example.invalid/image:1")
    kubectl("wait", "--for=condition=Complete", "job/build", KUBECTL_PATIENCE)
    kubectl("delete", "job", "build")


def test_node_without_heartbeats_is_lost_and_recovers_with_them(nodes: Nodes, kubectl: Kubectl) -> None:
    nodes.add("fragile", labels={"group": "fragile"}, capacity=GENERAL, allocatable=GENERAL)
    wait_until(lambda: nodes.is_ready("fragile"), "node Ready")
    kubectl.apply(pod("stranded", nodeSelector={"group": "fragile"}))
    wait_until(lambda: phase_of(kubectl, "stranded") == "Running", "pod Running")
    addresses = kubectl.get("node", "fragile")["status"]["addresses"]
    nodes.stop_heartbeat("fragile")
    wait_until(lambda: not nodes.is_ready("fragile"), "node lost")
    wait_until(lambda: "node.kubernetes.io/unreachable" in taints_of(kubectl, "fragile"), "the taint")
    kubectl("delete", "pod", "stranded", "--wait=false")
    kubectl.apply(pod("attended", nodeSelector={"group": "system"}))
    wait_until(lambda: phase_of(kubectl, "attended") == "Running", "pod Running")
    kubectl("delete", "pod", "attended", KUBECTL_PATIENCE)
    assert "deletionTimestamp" in kubectl.get("pod", "stranded")["metadata"], "no kubelet ends the pod of a lost node"
    nodes.resume_heartbeat("fragile")
    wait_until(lambda: nodes.is_ready("fragile"), "node Ready again")
    assert addresses
    assert kubectl.get("node", "fragile")["status"]["addresses"] == addresses, "kubectl logs and exec use the addresses"
    kubectl("wait", "--for=delete", "pod/stranded", KUBECTL_PATIENCE)
    nodes.remove("fragile")


def test_a_hundred_nodes_join_at_once(nodes: Nodes, control_plane: ControlPlane) -> None:
    names = [f"many-{number}" for number in range(100)]
    nodes.add_all(
        NodeSpec(name=name, labels={"group": "many"}, capacity=GENERAL, allocatable=GENERAL) for name in names
    )
    wait_until(lambda: nodes.is_ready(names[-1]), "last node Ready")
    control_plane.api.delete("/api/v1/nodes?labelSelector=group%3Dmany")
    assert not set(names) & set(nodes.names())
