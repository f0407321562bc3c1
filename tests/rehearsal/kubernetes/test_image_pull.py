"""An image that cannot be pulled: what the cluster says of it, and `ops status` after it."""

from collections.abc import Iterator

import kubernetes
import pytest

from config import EksEnvironment, labels, load
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import GENERAL, Kubectl, pod
from k8s_charts.ray_objects import ray_objects
from ops.readiness.item import ReadinessItem, ReadinessState, Require
from ops.readiness.workloads import ray_clusters
from tests.charts.support.facts import RAY_FACTS
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

IMAGE = "registry.example/ray:2.42.1"


@pytest.fixture
def absent() -> EksEnvironment:
    """`dev` with an image in a registry that does not exist."""
    environment = load("dev")
    image = environment.image.model_copy(update={"repository": None, "uri": IMAGE})
    ray = environment.ray.model_copy(update={"namespace": "absent"})
    return environment.model_copy(update={"image": image, "ray": ray})


@pytest.fixture
def place(kubectl: Kubectl, nodes: Nodes, absent: EksEnvironment) -> Iterator[None]:
    """The environment's namespace with Ray's account, and a node for the head."""
    name = absent.ray.namespace
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ray", "namespace": name}}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, account)
    own = {
        labels.INSTANCE_GROUP_LABEL: absent.ray.clusters[0].head.instance_group,
        labels.NODE_HEALTH_LABEL: labels.NODE_SCHEDULABLE,
    }
    nodes.add("absent-1", labels=own, capacity=GENERAL, allocatable=GENERAL)
    yield
    kubectl("delete", "namespace", name, KUBECTL_PATIENCE)
    nodes.remove("absent-1")


@pytest.mark.usefixtures("operator", "place")
def test_ray_cluster_whose_image_does_not_exist_waits_and_ops_names_the_image(
    absent: EksEnvironment, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    objects = ray_objects(absent, RAY_FACTS)
    kubectl.apply(*objects.volume.to_json(), *objects.clusters["rayml"].to_json())
    api = kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig))

    def item() -> ReadinessItem:
        [found] = ray_clusters(absent, api, Require.ALL)
        return found

    wait_until(lambda: "ImagePullBackOff" in item().detail, "the reason")
    assert item().state is ReadinessState.WAITING
    assert f'ImagePullBackOff: Back-off pulling image "{IMAGE}": ErrImagePull: no such host' in item().detail
    kubectl("-n", absent.ray.namespace, "delete", "raycluster", "rayml", KUBECTL_PATIENCE)


def test_pod_of_such_an_image_can_be_deleted(kubectl: Kubectl, nodes: Nodes) -> None:
    kubectl.apply(pod("absent", containers=[{"name": "main", "image": IMAGE}], nodeSelector={"group": "system"}))

    def reason() -> str:
        [status] = kubectl.get("pod", "absent")["status"].get("containerStatuses", [{}])
        return str(status.get("state", {}).get("waiting", {}).get("reason"))

    wait_until(lambda: reason() == "ImagePullBackOff", "the reason")
    kubectl("delete", "pod", "absent", KUBECTL_PATIENCE)
