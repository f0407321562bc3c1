"""The keys of a RayCluster in its object: placement, resources, variables, volumes, priority, autoscaling."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cdk8s
import jsonschema  # type: ignore[import-untyped]  # publishes no types
import pytest

from config import EksEnvironment, load
from config.facts.capacity import NodeResources, allocatable, whole_node_pod
from config.facts.instance_types import catalogue
from config.model import RayCluster, TieredStorage
from k8s_charts.ray_objects import RayObjects, ray_objects
from k8s_charts.shared.flows import Ends, ray_flows
from k8s_charts.shared.network_policies import PoliciesChart
from tests.charts.support.facts import RAY_FACTS, Object
from tests.charts.support.network_policies import INTERNET, Pod, connects
from tests.charts.support.ray_clusters import P5, SMALL, a_ray_cluster, a_worker_group, rendered, with_every_ray_key

IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/aws-ray-custom:"


@pytest.fixture
def objects(dev: EksEnvironment) -> RayObjects:
    return ray_objects(with_every_ray_key(dev), RAY_FACTS)


@pytest.fixture
def cluster(objects: RayObjects) -> Object:
    [manifest] = objects.clusters["rayml"].to_json()
    return dict(manifest)


@pytest.fixture
def head(cluster: Object) -> Object:
    return dict(cluster["spec"]["headGroupSpec"]["template"]["spec"])


@pytest.fixture
def worker(cluster: Object) -> Object:
    return dict(cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"])


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_no_key_becomes_a_field_that_the_pinned_crd_prunes(
    cluster: Object, crd_schema: Callable[[str], Object], version: str
) -> None:
    jsonschema.validate(cluster, crd_schema(version))


def test_pods_go_to_labelled_nodes_of_their_own_group(head: Object, worker: Object) -> None:
    name = "sagemaker.amazonaws.com/instance-group-name"
    assert head["nodeSelector"] == {"team": "a", name: "head-group"}
    assert worker["nodeSelector"] == {"team": "a", name: "worker-group-1"}


def test_a_selector_cannot_send_pods_to_another_group() -> None:
    name = "sagemaker.amazonaws.com/instance-group-name"
    cluster = a_ray_cluster()
    place = replace(cluster.head.place, node_selector={name: "other"})
    spec = rendered(replace(cluster, head=replace(cluster.head, place=place)))["spec"]
    assert spec["headGroupSpec"]["template"]["spec"]["nodeSelector"] == {name: "head-group"}


def test_pods_tolerate_the_taints_of_their_group(head: Object, worker: Object) -> None:
    for pod in (head, worker):
        assert pod["tolerations"][2:] == [
            {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
            {"key": "reserved", "operator": "Equal", "value": "", "effect": "NoExecute"},
        ]


def test_stated_resources_override_those_of_the_node(worker: Object) -> None:
    amounts = worker["containers"][0]["resources"]["limits"]
    assert amounts == {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1"}


def test_unstated_resources_are_all_that_the_node_offers(dev: EksEnvironment) -> None:
    [group] = [group for group in dev.hyperpod.instance_groups if group.name == "worker-group-1"]
    whole = whole_node_pod(group.type, group.threads_per_core)
    [cluster] = ray_objects(dev, RAY_FACTS).clusters["rayml"].to_json()
    limits = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["cpu"] == str(whole.cpu_millis // 1000)
    assert limits["memory"] == f"{whole.memory_mib // 1024}Gi"


def test_memory_tier_gets_its_part_of_a_node_and_is_found_by_jobs(dev: EksEnvironment) -> None:
    tiered = dev.hyperpod.model_copy(update={"tiered_storage": TieredStorage(memory_percent=25)})
    dev = dev.model_copy(update={"hyperpod": tiered})
    [group] = [group for group in dev.hyperpod.instance_groups if group.name == "worker-group-1"]
    without = whole_node_pod(group.type, group.threads_per_core).memory_mib
    [cluster] = ray_objects(dev, RAY_FACTS).clusters["rayml"].to_json()
    [worker] = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    left = without - int(worker["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024
    # The headroom is a part of what is left for pods.
    assert left == pytest.approx(0.25 * group.type.memory_gib * 1024 * 0.95, abs=1024)
    [head] = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][:1]
    tier = {"name": "RUN_MEMORY_TIER", "value": "http://ai-toolkit-gossip-headless.aws-hyperpod.svc.cluster.local:9200"}
    assert tier in head["env"]
    assert tier in worker["env"]


@pytest.mark.parametrize(
    ("mlflow", "seen"),
    [
        (None, None),
        ("http://mlflow.mlflow.svc:5000", "http://mlflow.mlflow.svc:5000"),
        ("managed", "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/rayhp-dev-mlflow"),
    ],
)
def test_every_pod_of_a_raycluster_knows_the_tracking_server(mlflow: str | None, seen: str | None) -> None:
    environment = load("dev").model_copy(update={"mlflow": mlflow})
    [manifest] = ray_objects(environment, RAY_FACTS).clusters["rayml"].to_json()
    spec = manifest["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        [container] = group["template"]["spec"]["containers"]
        given = {each["name"]: each.get("value") for each in container["env"]}
        assert given.get("MLFLOW_TRACKING_URI") == seen


@pytest.mark.parametrize(("name", "cores"), [("ml.trn1.32xlarge", 32), ("ml.trn2.48xlarge", 64)])
def test_ray_counts_the_neuron_cores_of_a_trainium_node(name: str, cores: int) -> None:
    """KubeRay 1.2.0 derives only GPUs from the container's resources, not Neuron cores."""
    resources = whole_node_pod(catalogue()[name], 1)
    [group] = rendered(a_ray_cluster(a_worker_group(resources=resources)))["spec"]["workerGroupSpecs"]
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"] == "16"
    parameters = group["rayStartParams"]
    assert parameters["num-gpus"] == "0"
    # Parsed once as KubeRay's shell does, once as Ray's autoscaler does (_get_custom_resources of Ray 2.42.1).
    [read] = shlex.split(parameters["resources"])
    assert json.loads(read) == {"neuron_cores": cores}
    assert json.loads(parameters["resources"][1:-1].replace("\\", "")) == {"neuron_cores": cores}


def test_gpu_workers_declare_no_neuron_cores() -> None:
    [group] = rendered(a_ray_cluster())["spec"]["workerGroupSpecs"]
    assert group["rayStartParams"] == {"num-gpus": "8"}


@pytest.mark.parametrize(("resources", "void"), [(P5, False), (SMALL, True), (replace(P5, accelerators=0), True)])
def test_a_pod_without_gpus_is_given_none(resources: NodeResources, void: bool) -> None:
    """HyperPod's AMI injects all GPUs of a node into a container of a CUDA image, and fails on a node without GPUs."""
    [group] = rendered(a_ray_cluster(a_worker_group(resources=resources)))["spec"]["workerGroupSpecs"]
    env = group["template"]["spec"]["containers"][0]["env"]
    assert ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in env) is void


def test_variables_reach_all_pods_and_secrets_stay_references(head: Object, worker: Object) -> None:
    for pod in (head, worker):
        env = pod["containers"][0]["env"]
        assert {"name": "NCCL_DEBUG", "value": "WARN"} in env
        reference = {"secretKeyRef": {"name": "hugging-face", "key": "token"}}
        assert {"name": "HF_TOKEN", "valueFrom": reference} in env
        assert len({item["name"] for item in env}) == len(env)


def test_a_stated_variable_overrides_the_projects_own() -> None:
    cluster = a_ray_cluster()
    cluster = replace(cluster, pods=replace(cluster.pods, env={"NCCL_SOCKET_IFNAME": "eth0"}))
    [group] = rendered(cluster)["spec"]["workerGroupSpecs"]
    env = group["template"]["spec"]["containers"][0]["env"]
    assert [item["value"] for item in env if item["name"] == "NCCL_SOCKET_IFNAME"] == ["eth0"]


def test_further_claims_are_mounted_in_all_pods(head: Object, worker: Object) -> None:
    for pod in (head, worker):
        assert {"name": "claim-0", "persistentVolumeClaim": {"claimName": "scratch"}} in pod["volumes"]
        mount = {"name": "claim-0", "mountPath": "/scratch", "readOnly": True}
        assert mount in pod["containers"][0]["volumeMounts"]


def test_priority_is_a_class_of_the_ray_clusters_own(objects: RayObjects, head: Object, worker: Object) -> None:
    [priority] = objects.priorities["rayml"].to_json()
    assert (priority["kind"], priority["value"], priority["globalDefault"]) == ("PriorityClass", 100, False)
    assert head["priorityClassName"] == worker["priorityClassName"] == priority["metadata"]["name"]


def test_another_priority_is_another_class_because_a_class_cannot_change(dev: EksEnvironment) -> None:
    def name(priority: int) -> Any:
        [cluster] = with_every_ray_key(dev).ray.clusters
        changed = cluster.model_copy(update={"priority": priority})
        ray = dev.ray.model_copy(update={"clusters": (changed,)})
        [found] = ray_objects(dev.model_copy(update={"ray": ray}), RAY_FACTS).priorities["rayml"].to_json()
        return found["metadata"]["name"]

    assert len({name(1), name(-1), name(2)}) == 3


def test_without_a_priority_there_is_no_class(dev_ray: RayObjects) -> None:
    assert dev_ray.priorities == {}


class TestAutoscaling:
    def test_container_runs_the_ray_image_with_the_stated_behaviour(self, cluster: Object) -> None:
        spec = cluster["spec"]
        options = spec["autoscalerOptions"]
        assert spec["enableInTreeAutoscaling"] is True
        assert (options["idleTimeoutSeconds"], options["upscalingMode"]) == (120, "Conservative")
        assert options["image"] == spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
        assert options["image"].startswith(IMAGE)

    def test_container_keeps_to_restricted_and_to_a_quota(self, cluster: Object) -> None:
        options = cluster["spec"]["autoscalerOptions"]
        assert options["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert options["resources"]["requests"] == options["resources"]["limits"]
        assert set(options["resources"]["limits"]) == {"cpu", "memory"}

    def test_head_keeps_the_projects_account_and_so_its_iam_role(self, head: Object, worker: Object) -> None:
        """KubeRay 1.2.0 binds its Role to the named account, and creates another account if none is named."""
        assert head["serviceAccountName"] == worker["serviceAccountName"] == "ray"

    def test_only_the_autoscaler_has_the_accounts_kubernetes_token(self, cluster: Object, head: Object) -> None:
        """The token allows patching RayClusters, and so starting any pod: jobs must not have it."""
        assert head["automountServiceAccountToken"] is False
        [token] = [volume["name"] for volume in head["volumes"] if "projected" in volume]
        assert token not in {mount["name"] for mount in head["containers"][0]["volumeMounts"]}
        [mount] = cluster["spec"]["autoscalerOptions"]["volumeMounts"]
        assert (mount["name"], mount["mountPath"]) == (token, "/var/run/secrets/kubernetes.io/serviceaccount")

    def test_token_volume_holds_what_a_kubernetes_client_reads(self, head: Object) -> None:
        [volume] = [volume["projected"] for volume in head["volumes"] if "projected" in volume]
        files = [
            item["path"]
            for source in volume["sources"]
            for each in source.values()
            for item in ([each] if "path" in each else each["items"])
        ]
        assert files == ["token", "ca.crt", "namespace"]

    def test_head_is_restarted_in_place_since_kuberay_never_looks_at_the_autoscaler(
        self, head: Object, worker: Object
    ) -> None:
        assert (head["restartPolicy"], worker["restartPolicy"]) == ("Always", "Never")

    def test_autoscaler_reaches_the_kubernetes_api(self) -> None:
        """Traffic to the service of the Kubernetes API is translated to a control plane address, on port 443."""
        flows = ray_flows(Ends("ray", "kuberay"))
        policies = PoliciesChart(cdk8s.App(), "policies", namespace="ray", flows=flows).to_json()
        assert connects(list(policies), Pod("ray", {"ray.io/node-type": "head"}), INTERNET, 443)

    def test_without_autoscaling_replicas_are_kept_and_no_pod_has_a_token(self, dev_ray: RayObjects) -> None:
        [cluster] = dev_ray.clusters["rayml"].to_json()
        assert cluster["spec"]["enableInTreeAutoscaling"] is False
        assert "autoscalerOptions" not in cluster["spec"]
        head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
        assert not any("projected" in volume for volume in head["volumes"])
        assert head["restartPolicy"] == "Never"


def test_devs_head_has_room_for_the_autoscaler_on_its_node(dev: EksEnvironment) -> None:
    [cluster] = dev.ray.clusters
    group = dev.instance_group(cluster.head.instance_group)
    room = allocatable(group.type, group.threads_per_core)
    assert cluster.head.memory_gib * 1024 + 1024 < room.memory_mib


def test_ray_cluster_model_has_no_key_that_these_tests_leave_out(dev: EksEnvironment) -> None:
    [stated] = with_every_ray_key(dev).ray.clusters
    assert stated.model_fields_set == set(RayCluster.model_fields)
