"""What quotas keep out and budgets keep in, by a real control plane."""

from collections.abc import Iterator

import cdk8s
import kubernetes
import pytest
from kubernetes.client import ApiException

from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.limits import IMAGE_BUILD_QUOTA, head_budget
from k8s_charts.shared.namespaces import Namespace, NamespaceChart
from tests.rehearsal.kubernetes.cluster import Kubectl, Object, pod
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

NAMESPACE = "limited"


@pytest.fixture(scope="module")
def core(control_plane: ControlPlane) -> Iterator[kubernetes.client.CoreV1Api]:
    with kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig)) as client:
        yield kubernetes.client.CoreV1Api(client)


@pytest.fixture(scope="module", autouse=True)
def limited(kubectl: Kubectl, nodes: Nodes) -> Iterator[None]:
    """A namespace with the quota of the image build, and the budget of a head."""
    app = cdk8s.App()
    namespace = Namespace(NAMESPACE, "privileged", "1.35", quota=IMAGE_BUILD_QUOTA)
    budget = ProjectChart(app, "budget")
    head_budget(budget, namespace=NAMESPACE, cluster="rayml")
    kubectl.apply(*NamespaceChart(app, "namespace", namespace=namespace).to_json(), *budget.to_json())
    quota = ("-n", NAMESPACE, "resourcequota", "project")
    wait_until(lambda: "hard" in kubectl.get(*quota).get("status", {}), "the quota is counted")
    yield
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def service(kind: str) -> Object:
    spec = {"type": kind, "selector": {"ray.io/node-type": "head"}, "ports": [{"port": 8265}]}
    return {"metadata": {"name": kind.lower()}, "spec": spec}


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_a_service_that_others_can_reach_is_refused(core: kubernetes.client.CoreV1Api, kind: str) -> None:
    with pytest.raises(ApiException, match="exceeded quota: project"):
        core.create_namespaced_service(NAMESPACE, service(kind))


def test_an_ingress_is_refused(core: kubernetes.client.CoreV1Api) -> None:
    backend = {"service": {"name": "rayml-head-svc", "port": {"number": 8265}}}
    ingress = {"metadata": {"name": "dashboard"}, "spec": {"defaultBackend": backend}}
    with pytest.raises(ApiException, match="exceeded quota: project"):
        kubernetes.client.NetworkingV1Api(core.api_client).create_namespaced_ingress(NAMESPACE, ingress)


def test_the_heads_own_service_is_admitted(core: kubernetes.client.CoreV1Api) -> None:
    headless = service("ClusterIP")
    headless["spec"]["clusterIP"] = "None"
    core.create_namespaced_service(NAMESPACE, headless)


def test_an_image_build_gets_no_gpu(core: kubernetes.client.CoreV1Api) -> None:
    gpu = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "example.invalid/image:1", "resources": {"requests": gpu, "limits": gpu}}
    with pytest.raises(ApiException, match=r"exceeded quota: project.*nvidia.com/gpu"):
        core.create_namespaced_pod(NAMESPACE, pod("with-gpu", containers=[container]))


def test_a_head_is_not_evicted_but_can_be_deleted_and_a_worker_is_evicted(
    core: kubernetes.client.CoreV1Api, kubectl: Kubectl
) -> None:
    for kind in ("head", "worker"):
        made = pod(kind, nodeSelector={"group": "system"}, terminationGracePeriodSeconds=1)
        made["metadata"] |= {"namespace": NAMESPACE, "labels": {"ray.io/cluster": "rayml", "ray.io/node-type": kind}}
        kubectl.apply(made)
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/head", "pod/worker", KUBECTL_PATIENCE)
    budget = ("-n", NAMESPACE, "poddisruptionbudget", "rayml-head")
    wait_until(lambda: kubectl.get(*budget)["status"].get("currentHealthy") == 1, "the budget sees the head")

    with pytest.raises(ApiException) as refusal:
        evict(core, "head")
    assert refusal.value.status == 429
    evict(core, "worker")
    kubectl("-n", NAMESPACE, "delete", "pod", "head", KUBECTL_PATIENCE)


def evict(core: kubernetes.client.CoreV1Api, name: str) -> None:
    eviction = kubernetes.client.V1Eviction(metadata={"name": name, "namespace": NAMESPACE})
    core.create_namespaced_pod_eviction(name, NAMESPACE, eviction)
