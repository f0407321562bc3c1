"""Every pair of pods that matters, on every port that matters: Ray has no authentication of its own."""

import cdk8s
import pytest

from config import Environment
from k8s_charts.assembly import platform_objects
from k8s_charts.network_policies import RayPoliciesChart
from tests.charts.conftest import PLATFORM_FACTS, Object
from tests.charts.policies import INTERNET, Pod, connects

RAY_PORTS = [6379, 8265, 10001, 8000, 52365, 44217]


def ray_pod(cluster: str, kind: str) -> Pod:
    return Pod("ray", {"ray.io/is-ray-node": "yes", "ray.io/cluster": cluster, "ray.io/node-type": kind})


HEAD, WORKER, OTHER_WORKER = ray_pod("rayml", "head"), ray_pod("rayml", "worker"), ray_pod("rayml", "worker")
STRANGERS = {
    "another RayCluster's worker": ray_pod("other", "worker"),
    "a pod of Ray's namespace": Pod("ray"),
    "a pod of another namespace": Pod("default"),
    "the image build": Pod("image-build"),
    "a pod elsewhere that calls itself submitter": Pod("default", {"ray-on-hyperpod/submitter": "true"}),
    "a pod elsewhere that calls itself a member": Pod("default", dict(HEAD.labels)),
    "Prometheus": Pod("prometheus-system"),
    "the internet": INTERNET,
}
SUBMITTER = Pod("ray", {"ray-on-hyperpod/submitter": "true"})
DNS = Pod("kube-system", {"k8s-app": "kube-dns"})


@pytest.fixture(scope="module")
def policies() -> list[Object]:
    return list(RayPoliciesChart(cdk8s.App(), "policies", namespace="ray", clusters=["rayml", "other"]).to_json())


@pytest.mark.parametrize("port", [*RAY_PORTS, 8080, 12345])
@pytest.mark.parametrize(("source", "target"), [(HEAD, WORKER), (WORKER, HEAD), (WORKER, OTHER_WORKER)])
def test_members_of_a_ray_cluster_reach_each_other_on_every_port(
    policies: list[Object], source: Pod, target: Pod, port: int
) -> None:
    assert connects(policies, source, target, port)


@pytest.mark.parametrize("port", RAY_PORTS)
@pytest.mark.parametrize("target", [HEAD, WORKER], ids=["head", "worker"])
@pytest.mark.parametrize("stranger", STRANGERS)
def test_nobody_else_reaches_ray(policies: list[Object], stranger: str, target: Pod, port: int) -> None:
    assert not connects(policies, STRANGERS[stranger], target, port)


def test_a_submitter_reaches_the_dashboard_and_nothing_else(policies: list[Object]) -> None:
    reached = [port for port in [*RAY_PORTS, 8080] if connects(policies, SUBMITTER, HEAD, port)]
    assert reached == [8265]
    assert not connects(policies, SUBMITTER, WORKER, 8265)


@pytest.mark.parametrize("target", [HEAD, WORKER], ids=["head", "worker"])
def test_prometheus_reads_metrics(policies: list[Object], target: Pod) -> None:
    assert connects(policies, STRANGERS["Prometheus"], target, 8080)
    assert not connects(policies, Pod("default"), target, 8080)


def test_dashboard_finds_prometheus_and_grafana(policies: list[Object]) -> None:
    assert all(connects(policies, HEAD, Pod("prometheus-system"), port) for port in (9090, 3000))


@pytest.mark.parametrize("pod", [HEAD, WORKER, SUBMITTER], ids=["head", "worker", "submitter"])
def test_ray_resolves_names_and_reaches_aws_by_https_only(policies: list[Object], pod: Pod) -> None:
    assert connects(policies, pod, DNS, 53, "UDP")
    assert connects(policies, pod, DNS, 53, "TCP")
    assert connects(policies, pod, INTERNET, 443)
    # 80 is where the instance metadata service of a node answers.
    assert not any(connects(policies, pod, INTERNET, port) for port in (22, 80, 6379))


def test_image_build_is_reached_by_nobody_and_reaches_https_only(dev: Environment) -> None:
    chart = platform_objects(dev, PLATFORM_FACTS).image_build_policies
    assert chart
    policies = list(chart.to_json())
    builder = Pod("image-build")
    assert not any(connects(policies, source, builder, 443) for source in (Pod("image-build"), HEAD, INTERNET))
    assert connects(policies, builder, INTERNET, 443)
    assert not connects(policies, builder, INTERNET, 80)


def test_operator_is_reached_for_metrics_only(dev: Environment) -> None:
    policies = platform_objects(dev, PLATFORM_FACTS).kuberay_policies.to_json()
    operator = Pod("kuberay")
    assert connects(policies, Pod("prometheus-system"), operator, 8080)
    assert not connects(policies, HEAD, operator, 8080)
    assert connects(policies, operator, INTERNET, 443)
