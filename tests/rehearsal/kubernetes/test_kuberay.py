"""The real operator, run through its Deployment, with the roles of its own project."""

import copy
from collections import Counter

from embedded_account.kubernetes.control_plane import ControlPlane
from tests.rehearsal.kubernetes.cluster import OPERATOR_NAMESPACE, Kubectl, Object, ray_cluster
from tests.support.waiting import KUBECTL_PATIENCE, wait_until


def status_of(kubectl: Kubectl, cluster: str) -> Object:
    status: Object = kubectl.get("raycluster", cluster).get("status", {})
    return status


def groups_of_pods(kubectl: Kubectl, cluster: str) -> Counter[str]:
    """How many pods of a RayCluster run on the nodes of each group."""
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"]["group"] for node in kubectl.get("nodes")["items"]}
    pods = kubectl.get("pods", "-l", f"ray.io/cluster={cluster}")["items"]
    return Counter(nodes[pod["spec"]["nodeName"]] for pod in pods if pod["status"]["phase"] == "Running")


def test_operator_holds_its_lease_in_its_own_namespace(operator: Object, kubectl: Kubectl) -> None:
    lease = ("-n", OPERATOR_NAMESPACE, "get", "leases", "-o", "jsonpath={.items[*].metadata.name}")
    wait_until(lambda: kubectl(*lease) == "ray-operator-leader", "the operator's lease")


def test_ray_cluster_of_one_head_and_four_workers_becomes_ready(operator: Object, kubectl: Kubectl) -> None:
    kubectl.apply(ray_cluster("rayml", workers=4))
    wait_until(lambda: status_of(kubectl, "rayml").get("state") == "ready", "RayCluster ready")
    assert status_of(kubectl, "rayml")["availableWorkerReplicas"] == 4
    assert groups_of_pods(kubectl, "rayml") == {"head": 1, "gpu": 4}
    kubectl("delete", "raycluster", "rayml", KUBECTL_PATIENCE)


def test_operator_that_may_not_create_pods_makes_none(
    operator: Object, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    lame = copy.deepcopy(operator)
    rule = next(rule for rule in lame["rules"] if rule["resources"] == ["pods"])
    rule["verbs"].remove("create")
    kubectl.apply(lame)
    kubectl.apply(ray_cluster("forbidden", workers=1))
    logs = (control_plane.logs / "pods").glob(f"{OPERATOR_NAMESPACE}_*.log")
    # The newest, should it have been restarted.
    log = max(logs, key=lambda path: path.stat().st_mtime)
    refusal = 'cannot create resource \\"pods\\"'
    wait_until(lambda: refusal in log.read_text(), "refusal in the operator's log")
    assert status_of(kubectl, "forbidden").get("state") != "ready"
    assert not kubectl("get", "pods", "-l", "ray.io/cluster=forbidden", "-o", "name")
    kubectl("delete", "raycluster", "forbidden", KUBECTL_PATIENCE)
    kubectl.apply(operator)
