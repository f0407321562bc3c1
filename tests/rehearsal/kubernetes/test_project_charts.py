"""What the project applies, on a real control plane with the real operator, in a deployment's order."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from config import EksEnvironment, Environment, labels, load
from config.facts.capacity import allocatable
from config.model import InstanceGroup
from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes, NodeSpec
from embedded_account.testing.cluster import Kubectl, Object, helm
from k8s_charts.controllers import code
from k8s_charts.helm.hyperpod_dependencies import hyperpod_dependencies_release
from k8s_charts.helm.release import HelmRelease
from k8s_charts.platform_objects import PlatformObjects, platform_objects
from k8s_charts.ray_objects import RayObjects, ray_objects
from k8s_charts.shared.chart import ProjectChart
from rehearsal import stand_ins
from stacks.shared.crds_chart import write_crds_chart
from tests.charts.support.facts import PLATFORM_FACTS, RAY_FACTS
from tests.rehearsal.kubernetes.cluster import install_objects, wait_until_served
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

SYSTEM_NODE = {"cpu": "3920m", "memory": "14Gi", "pods": "58", "ephemeral-storage": "140Gi"}


class Deployment:
    """Applies charts and releases as CDK's own functions do: strictly, created rather than adopted."""

    def __init__(self, control_plane: ControlPlane, charts: Path) -> None:
        self.kubectl = Kubectl(control_plane)
        self.warnings: list[str] = []
        self._control_plane = control_plane
        self._charts = charts

    def create(self, *charts: ProjectChart) -> None:
        self.warnings += self._run("kubectl", "create", "--save-config", "--validate=strict", "-f", "-", charts=charts)

    def differences(self, *charts: ProjectChart) -> str:
        return self.kubectl("diff", "-f", "-", stdin=_text(*charts))

    def delete(self, chart: ProjectChart) -> None:
        self._run("kubectl", "delete", KUBECTL_PATIENCE, "-f", "-", charts=[chart])

    def install(self, release: HelmRelease) -> None:
        values = self._control_plane.directory / f"{release.name}.json"
        values.write_text(json.dumps(release.values))
        chart = self._charts / release.chart
        if release.only_crds:
            chart = write_crds_chart(release.chart, chart, self._control_plane.directory / release.name)
        self._run("helm", "install", release.name, str(chart), f"--namespace={release.namespace}", f"--values={values}")

    def uninstall(self, release: HelmRelease) -> None:
        if release.only_crds:
            wait_until_served(self.kubectl)
        self._run("helm", "uninstall", release.name, f"--namespace={release.namespace}", "--wait", KUBECTL_PATIENCE)

    def install_code(self, ray: RayObjects) -> None:
        install_objects(self._control_plane, code.RELEASE, "kuberay", ray.controller_code)

    def uninstall_code(self) -> None:
        helm(self._control_plane, "uninstall", code.RELEASE, "--namespace=kuberay")

    def _run(self, program: str, *arguments: str, charts: Sequence[ProjectChart] = ()) -> list[str]:
        argv = [str(self._control_plane.binaries[program]), f"--kubeconfig={self._control_plane.admin_kubeconfig}"]
        environment = {"HOME": str(self._control_plane.directory), "PATH": "/usr/bin:/bin"}
        text = _text(*charts) if charts else None
        done = subprocess.run(
            [*argv, *arguments], input=text, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stderr}"
        return [line for line in done.stderr.splitlines() if "Warning" in line]


def _text(*charts: ProjectChart) -> str:
    items = [item for chart in charts for item in chart.to_json()]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@pytest.fixture(scope="module")
def dev() -> EksEnvironment:
    return load("dev")


@pytest.fixture(scope="module")
def platform(dev: EksEnvironment) -> PlatformObjects:
    return platform_objects(dev, PLATFORM_FACTS)


@pytest.fixture(scope="module")
def ray(dev: EksEnvironment) -> RayObjects:
    return ray_objects(dev, RAY_FACTS)


@pytest.fixture(scope="module")
def deployment(
    tmp_path_factory: pytest.TempPathFactory,
    binaries: Binaries,
    dev: EksEnvironment,
    platform: PlatformObjects,
    ray: RayObjects,
) -> Iterator[Deployment]:
    """Everything that the eks, platform and ray stacks apply, in their order."""
    charts = tmp_path_factory.mktemp("charts")
    stand_ins.build(charts, binaries)
    plane = ControlPlane(tmp_path_factory.mktemp("project"), binaries, name="project")
    plane.start()
    try:
        Nodes(plane.api).add_all([*_system_nodes(dev), *_hyperpod_nodes(dev)])
        deployment = Deployment(plane, charts)
        deployment.install(hyperpod_dependencies_release(region=dev.region))
        deployment.create(platform.fsx_csi_account)
        deployment.install(platform.fsx_csi)
        deployment.create(platform.kuberay_namespace, platform.kuberay_policies)
        deployment.install(platform.kuberay_crds)
        deployment.install(platform.kuberay)
        deployment.create(*_build_ground(platform), ray.namespace)
        deployment.install_code(ray)
        deployment.create(*_ray_charts(ray))
        yield deployment
    finally:
        plane.stop()


def _build_ground(platform: PlatformObjects) -> list[ProjectChart]:
    return [chart for chart in (platform.image_build_namespace, platform.image_build_policies) if chart]


def _ray_charts(ray: RayObjects) -> list[ProjectChart]:
    """After the namespace and the controllers' code."""
    ground = [ray.policies, *ray.cluster_policies.values(), ray.account, ray.volume, ray.reaper]
    ground += ray.volume_owner.values()
    build = [chart for chart in (ray.image_builder_account, ray.image_build) if chart]
    return [*ground, *build, *ray.priorities.values(), *ray.clusters.values()]


def _system_nodes(environment: EksEnvironment) -> list[NodeSpec]:
    own = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
    count = environment.eks.system_nodes.count
    return [
        NodeSpec(name=f"system-{number}", labels=own, allocatable=SYSTEM_NODE, capacity=SYSTEM_NODE)
        for number in range(count)
    ]


def _hyperpod_nodes(environment: Environment) -> list[NodeSpec]:
    return [
        _hyperpod_node(group, number) for group in environment.hyperpod.instance_groups for number in range(group.count)
    ]


def _hyperpod_node(group: InstanceGroup, number: int) -> NodeSpec:
    room = allocatable(group.type, group.threads_per_core)
    amounts = {"cpu": f"{room.cpu_millis}m", "memory": f"{room.memory_mib}Mi", "pods": str(room.pods)}
    amounts |= {name: str(count) for name, count in room.devices.items()}
    own = {
        labels.INSTANCE_GROUP_LABEL: group.name,
        labels.NODE_HEALTH_LABEL: labels.NODE_SCHEDULABLE,
        "node.kubernetes.io/instance-type": group.instance_type,
    }
    return NodeSpec(name=f"hyperpod-{group.name}-{number}", labels=own, allocatable=amounts, capacity=amounts)


def _status(deployment: Deployment, *what: str) -> Object:
    status: Object = deployment.kubectl.get(*what).get("status", {})
    return status


def test_nothing_that_is_applied_violates_its_namespaces_pod_security(deployment: Deployment) -> None:
    assert deployment.warnings == []


def test_ray_cluster_runs_its_head_and_a_worker_on_each_gpu_node(deployment: Deployment) -> None:
    wait_until(lambda: _status(deployment, "-n", "ray", "raycluster", "rayml").get("state") == "ready", "RayCluster")
    pods = deployment.kubectl.get("-n", "ray", "pods", "-l", "ray.io/cluster=rayml")["items"]
    nodes = Counter(pod["spec"]["nodeName"].rpartition("-")[0] for pod in pods)
    assert nodes == {"hyperpod-head-group": 1, "hyperpod-worker-group-1": 4}


def test_operator_reports_conditions(deployment: Deployment) -> None:
    def conditions() -> list[str]:
        status = _status(deployment, "-n", "ray", "raycluster", "rayml")
        return [condition["type"] for condition in status.get("conditions", ())]

    wait_until(lambda: "HeadPodReady" in conditions(), "the head's condition")


def test_operator_adds_no_probe_beside_the_projects(deployment: Deployment) -> None:
    pods = deployment.kubectl.get("-n", "ray", "pods", "-l", "ray.io/node-type=worker")["items"]
    assert {pod["spec"]["containers"][0]["livenessProbe"]["timeoutSeconds"] for pod in pods} == {5}


def test_both_replicas_of_the_reaper_may_do_their_work(deployment: Deployment) -> None:
    reaper = ("-n", "kuberay", "deployment", "ray-reaper")
    wait_until(lambda: _status(deployment, *reaper).get("availableReplicas") == 2, "reaper")


def test_claim_is_bound_to_the_file_system(deployment: Deployment) -> None:
    claim = ("-n", "ray", "persistentvolumeclaim", "fsx-claim")
    wait_until(lambda: _status(deployment, *claim).get("phase") == "Bound", "claim")
    assert _status(deployment, *claim)["capacity"] == {"storage": "1200Gi"}


def test_root_gives_ray_its_directory_where_root_is_admitted(deployment: Deployment, ray: RayObjects) -> None:
    def done() -> bool:
        [job] = deployment.kubectl.get("-n", "ray-volume", "jobs")["items"]
        return bool(job["status"].get("succeeded") == 1)

    wait_until(done, "Ray's directory")
    [job] = ray.volume_owner["job"].to_json()
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": job["spec"]["template"]["spec"]}
    with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
        deployment.kubectl("-n", "ray", "create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_image_build_gets_a_place_and_completes(deployment: Deployment) -> None:
    def done() -> bool:
        [job] = deployment.kubectl.get("-n", "image-build", "jobs")["items"]
        return bool(job["status"].get("succeeded") == 1)

    wait_until(done, "image build")


def test_applying_the_same_again_changes_nothing(deployment: Deployment, ray: RayObjects) -> None:
    assert deployment.differences(ray.namespace, *_ray_charts(ray)) == ""


def test_a_value_that_the_operators_chart_does_not_know_fails_the_release(
    deployment: Deployment, platform: PlatformObjects
) -> None:
    wrong = HelmRelease("kuberay-operator", "other", "default", {**platform.kuberay.values, "nodeSelectors": {}})
    with pytest.raises(AssertionError, match="nodeSelectors"):
        deployment.install(wrong)


def test_kinds_that_others_installed_are_refused_and_so_never_taken_away(
    deployment: Deployment, platform: PlatformObjects
) -> None:
    another = HelmRelease("kuberay-operator", "another", "default", {}, only_crds=True)
    with pytest.raises(AssertionError, match="invalid ownership metadata"):
        deployment.install(another)


def test_removing_the_ray_stack_and_then_the_platform_leaves_nothing(
    deployment: Deployment, ray: RayObjects, platform: PlatformObjects
) -> None:
    for chart in reversed(_ray_charts(ray)):
        deployment.delete(chart)
    deployment.uninstall_code()
    deployment.delete(ray.namespace)
    deployment.uninstall(platform.kuberay)
    deployment.uninstall(platform.kuberay_crds)
    for chart in (*reversed(_build_ground(platform)), platform.kuberay_policies):
        deployment.delete(chart)
    deployment.delete(platform.kuberay_namespace)
    deployment.uninstall(platform.fsx_csi)
    deployment.delete(platform.fsx_csi_account)

    namespaces = {item["metadata"]["name"] for item in deployment.kubectl.get("namespaces")["items"]}
    assert not namespaces & {"ray", "ray-volume", "kuberay", "image-build"}
    assert deployment.kubectl.get("persistentvolumes")["items"] == []
    assert deployment.kubectl.get("customresourcedefinitions")["items"] == []
