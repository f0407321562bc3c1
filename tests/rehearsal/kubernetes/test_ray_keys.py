"""A RayCluster that states every key, on a real control plane with the real operator and its Pod Security."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator

import cdk8s
import pytest

from config import EksEnvironment, Environment, labels, load
from config.facts.capacity import allocatable
from config.model import InstanceGroup
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes, NodeSpec
from embedded_account.testing.cluster import Kubectl, Object
from k8s_charts.ray_objects import RayObjects, ray_objects
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.tolerations import tolerations
from k8s_charts.storage.volumes import FileSystemVolume, FileSystemVolumeChart
from tests.charts.support.facts import FILE_SYSTEM, RAY_FACTS
from tests.charts.support.ray_clusters import with_every_ray_key
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

ACCOUNT = "system:serviceaccount:ray:ray"


@pytest.fixture(scope="module")
def environment() -> EksEnvironment:
    return with_every_ray_key(load("small"))


@pytest.fixture(scope="module")
def objects(environment: EksEnvironment) -> RayObjects:
    return ray_objects(environment, RAY_FACTS)


@pytest.fixture(scope="module")
def own_nodes(environment: Environment, nodes: Nodes) -> Iterator[None]:
    """The environment's nodes as HyperPod makes them, with their groups' labels and taints."""
    specs = [_node(group, number) for group in environment.hyperpod.instance_groups for number in range(group.count)]
    nodes.add_all(specs)
    yield
    for spec in specs:
        nodes.remove(spec.name)


def _node(group: InstanceGroup, number: int) -> NodeSpec:
    room = allocatable(group.type, group.threads_per_core)
    amounts = {"cpu": f"{room.cpu_millis}m", "memory": f"{room.memory_mib}Mi", "pods": str(room.pods)}
    amounts |= {name: str(count) for name, count in room.devices.items()}
    own = {labels.INSTANCE_GROUP_LABEL: group.name, labels.NODE_HEALTH_LABEL: labels.NODE_SCHEDULABLE}
    return NodeSpec(
        name=f"keys-{group.name}-{number}",
        labels={"group": "keys", **own, **group.labels},
        allocatable=amounts,
        capacity=amounts,
        taints=[{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in group.taints],
    )


@pytest.fixture(scope="module")
def warnings(
    control_plane: ControlPlane, operator: Object, own_nodes: None, kubectl: Kubectl, objects: RayObjects
) -> Iterator[list[str]]:
    """Everything of the ray stack is applied, strictly; yields what the API server warned of."""
    scratch = FileSystemVolumeChart(
        cdk8s.App(), "scratch", volume=FileSystemVolume("scratch", "ray", 1200, FILE_SYSTEM)
    )
    charts = [objects.namespace, objects.policies, objects.account, objects.volume, scratch]
    charts += [*objects.priorities.values(), *objects.clusters.values()]
    said = [line for chart in charts for line in _create(control_plane, chart)]
    yield said
    for chart in reversed(charts):
        kubectl("delete", KUBECTL_PATIENCE, "-f", "-", stdin=_text(chart))


def _create(control_plane: ControlPlane, chart: ProjectChart) -> list[str]:
    argv = [str(control_plane.binaries["kubectl"]), f"--kubeconfig={control_plane.admin_kubeconfig}"]
    done = subprocess.run(
        [*argv, "create", "--validate=strict", "-f", "-"],
        input=_text(chart),
        env={"HOME": str(control_plane.directory), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "Warning" in line]


def _text(chart: ProjectChart) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": chart.to_json()})


@pytest.fixture(scope="module")
def pods(warnings: list[str], kubectl: Kubectl) -> list[Object]:
    """The RayCluster's pods, all of them running."""

    def state() -> str:
        status = kubectl.get("-n", "ray", "raycluster", "rayml").get("status", {})
        return str(status.get("state"))

    wait_until(lambda: state() == "ready", "RayCluster")
    return list(kubectl.get("-n", "ray", "pods", "-l", "ray.io/cluster=rayml")["items"])


@pytest.fixture
def head(pods: list[Object]) -> Object:
    [head] = [pod for pod in pods if pod["metadata"]["labels"]["ray.io/node-type"] == "head"]
    return head


def test_no_field_is_unknown_and_none_violates_the_namespaces_pod_security(warnings: list[str]) -> None:
    assert warnings == []


def test_pods_run_on_the_labelled_and_tainted_nodes_of_their_groups(pods: list[Object]) -> None:
    places = Counter(pod["spec"]["nodeName"].removeprefix("keys-").rpartition("-")[0] for pod in pods)
    assert places == {"head-group": 1, "worker-group-1": 2}


def test_every_pod_tolerates_its_groups_taints(pods: list[Object], environment: Environment) -> None:
    [group, *_] = environment.hyperpod.instance_groups
    for pod in pods:
        assert all(toleration in pod["spec"]["tolerations"] for toleration in _spelled(tolerations(group.taints)))


def _spelled(wanted: list[Object]) -> list[Object]:
    """As the API server gives them back: an empty value is left out."""
    return [{key: value for key, value in each.items() if value} for each in wanted]


def test_priority_reaches_every_pod(pods: list[Object]) -> None:
    assert {pod["spec"]["priority"] for pod in pods} == {100}


def test_operator_puts_the_autoscaler_beside_the_head_as_it_is_told(head: Object) -> None:
    ray, autoscaler = head["spec"]["containers"]
    assert autoscaler["name"] == "autoscaler"
    assert autoscaler["image"] == ray["image"]
    assert autoscaler["securityContext"] == ray["securityContext"]
    assert autoscaler["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert head["spec"]["restartPolicy"] == "Always"


def test_the_kubernetes_token_is_the_autoscalers_alone(head: Object, pods: list[Object]) -> None:
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    mounting = [
        container["name"]
        for pod in pods
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
        if any(mount["mountPath"] == place for mount in container["volumeMounts"])
    ]
    assert mounting == ["autoscaler"]


def test_head_shares_its_logs_with_the_autoscaler(head: Object) -> None:
    """Ray's dashboard shows the autoscaler's events from files below /tmp/ray."""
    mounts = [
        {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        for container in head["spec"]["containers"]
    ]
    assert {each["/tmp/ray"] for each in mounts} == {"ray-logs"}


def test_operator_keeps_the_heads_account_and_lets_it_scale_this_namespace(head: Object, kubectl: Kubectl) -> None:
    assert head["spec"]["serviceAccountName"] == "ray"
    [account] = [
        item for item in kubectl.get("-n", "ray", "serviceaccounts")["items"] if item["metadata"]["name"] != "default"
    ]
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == RAY_FACTS.ray_role_arn
    assert kubectl("-n", "ray", "auth", "can-i", "patch", "rayclusters.ray.io", f"--as={ACCOUNT}").strip() == "yes"


def test_secrets_and_claims_reach_the_pods(pods: list[Object]) -> None:
    for pod in pods:
        [ray, *_] = pod["spec"]["containers"]
        token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}}
        assert token in ray["env"]
        assert {"name": "claim-0", "mountPath": "/scratch", "readOnly": True} in ray["volumeMounts"]
