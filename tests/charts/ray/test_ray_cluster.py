"""RayClusters: the fields for KubeRay 1.2.0, and the settings that keep training on healthy nodes."""

from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # publishes no types
import pytest

from config import EksEnvironment
from config.labels import INSTANCE_GROUP_LABEL, NODE_HEALTH_LABEL, TEMPLATE_LABEL
from config.model import SecretVariable
from k8s_charts.ray.from_environment import token_secrets
from k8s_charts.ray.pods import Placement
from k8s_charts.ray_objects import RayObjects, ray_objects
from ops.review.kubernetes.objects import groups_of
from tests.charts.support.facts import RAY_FACTS, Object
from tests.charts.support.ray_clusters import SMALL, a_ray_cluster, a_worker_group, rendered


def pods(cluster: Object) -> list[Object]:
    spec = cluster["spec"]
    return [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]


@pytest.fixture
def head() -> Object:
    return pods(rendered(a_ray_cluster()))[0]


@pytest.fixture
def worker() -> Object:
    return pods(rendered(a_ray_cluster()))[1]


def env(pod: Object) -> dict[str, str]:
    return {item["name"]: item["value"] for item in pod["containers"][0]["env"]}


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_no_field_is_pruned_by_the_pinned_crd(crd_schema: Callable[[str], Object], version: str) -> None:
    cluster = rendered(a_ray_cluster(a_worker_group(prefer_deep_checked=True)))
    jsonschema.validate(cluster, crd_schema(version))


def test_a_field_that_the_crd_lacks_would_be_found(crd_schema: Callable[[str], Object]) -> None:
    cluster = rendered(a_ray_cluster())
    cluster["spec"]["gcsFaultToleranceOptions"] = {}
    with pytest.raises(jsonschema.ValidationError, match="gcsFaultToleranceOptions"):
        jsonschema.validate(cluster, crd_schema("v1"))


def test_the_walkthroughs_cluster_is_one_head_and_four_gpu_workers_on_shared_storage(dev_ray: RayObjects) -> None:
    [cluster] = dev_ray.clusters["rayml"].to_json()
    [group] = cluster["spec"]["workerGroupSpecs"]
    assert (cluster["apiVersion"], cluster["spec"]["rayVersion"]) == ("ray.io/v1", "2.42.1")
    assert (group["groupName"], group["replicas"]) == ("gpu-group", 4)
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 10)
    for pod in pods(cluster):
        assert {"name": "fsx-storage", "persistentVolumeClaim": {"claimName": "fsx-claim"}} in pod["volumes"]
        assert {"name": "fsx-storage", "mountPath": "/fsx"} in pod["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("versions", "stated", "ray", "switch"),
    [
        ("walkthrough", None, "2.42.1", None),
        ("fixed", None, "2.56.1", "0"),
        # An existing image brings its own Ray.
        ("walkthrough", "2.56.1", "2.56.1", "0"),
        ("fixed", "2.42.1", "2.42.1", None),
        ("current", None, "2.60.0", "0"),
    ],
)
def test_pods_have_the_ray_of_the_environment_which_behaves_as_before(
    dev: EksEnvironment, versions: str, stated: str | None, ray: str, switch: str | None
) -> None:
    """Else Ray Train never changes the number of workers of an elastic run, and a gauge is in one scrape only."""
    chosen = {"versions": versions, "ray": dev.ray.model_copy(update={"version": stated})}
    objects = ray_objects(dev.model_copy(update=chosen), RAY_FACTS)
    [cluster] = objects.clusters["rayml"].to_json()
    assert cluster["spec"]["rayVersion"] == ray
    for name in ("RAY_TRAIN_V2_ENABLED", "RAY_enable_open_telemetry"):
        assert [env(pod).get(name) for pod in pods(cluster)] == [switch, switch]
    tokens = "disabled" if ray == "2.60.0" else None
    assert [env(pod).get("RAY_AUTH_MODE") for pod in pods(cluster)] == [tokens, tokens]


@pytest.mark.parametrize(
    ("versions", "key", "options"),
    [
        ("fixed", "auth_token", None),
        ("current", None, {"mode": "token"}),
        ("current", "auth_token", {"mode": "token", "secretName": "own"}),
        # KubeRay reads no other key.
        ("current", "other", None),
    ],
)
def test_kuberay_gives_the_token_to_pods_from_1_6_on(
    dev: EksEnvironment, versions: str, key: str | None, options: dict[str, str] | None
) -> None:
    """Else neither the autoscaler nor a RayJob's submitter had it."""
    secrets = (SecretVariable(env="RAY_AUTH_TOKEN", secret="own", key=key),) if key else ()
    [cluster] = dev.ray.clusters
    clusters = (cluster.model_copy(update={"env": {"RAY_AUTH_MODE": "token"}, "secrets": secrets}),)
    ray = dev.ray.model_copy(update={"version": None, "clusters": clusters})
    kuberay = dev.kuberay.model_copy(update={"version": None})
    closed = dev.model_copy(update={"versions": versions, "ray": ray, "kuberay": kuberay})
    [made] = ray_objects(closed, RAY_FACTS).clusters["rayml"].to_json()
    assert made["spec"].get("authOptions") == options
    for pod in pods(made):
        names = {each["name"] for each in pod["containers"][0]["env"]}
        assert ({"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} & names) == (
            set() if options else {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"}
        )
    assert token_secrets(closed) == ("own" if key else "rayml",)
    # Pods without the token are old ones (`ops rollout`).
    open_to_all = closed.model_copy(update={"ray": ray.model_copy(update={"clusters": (cluster,)})})
    [before] = ray_objects(open_to_all, RAY_FACTS).clusters["rayml"].to_json()
    assert not {*labels(made)} & {*labels(before)}


def labels(cluster: Object) -> list[str]:
    """Return the labels that show the template of each group."""
    groups = (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"])
    return [group["template"]["metadata"]["labels"][TEMPLATE_LABEL] for group in groups]


def test_head_has_the_walkthroughs_ports_and_dashboard_variables(head: Object) -> None:
    ports = {port["name"]: port["containerPort"] for port in head["containers"][0]["ports"]}
    assert ports == {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "serve": 8000}
    assert env(head)["RAY_PROMETHEUS_HOST"].startswith("http://prometheus-kube-prometheus-prometheus.")
    assert env(head)["RAY_GRAFANA_IFRAME_HOST"] == "http://localhost:3000"


def test_head_takes_no_tasks_and_no_gpu(head: Object) -> None:
    start = rendered(a_ray_cluster())["spec"]["headGroupSpec"]["rayStartParams"]
    assert (start["num-cpus"], start["num-gpus"]) == ("0", "0")
    assert env(head)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "nvidia.com/gpu" not in head["containers"][0]["resources"]["limits"]


def test_ray_start_parameters_are_strings_as_kuberay_wants_them() -> None:
    spec = rendered(a_ray_cluster())["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


def test_worker_takes_the_whole_node_with_gpus_and_efa(worker: Object) -> None:
    resources = worker["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {
        "cpu": "90",
        "memory": "1800Gi",
        "nvidia.com/gpu": "8",
        "vpc.amazonaws.com/efa": "32",
    }


def test_workers_without_efa_request_none_and_set_no_variable_of_it() -> None:
    pod = pods(rendered(a_ray_cluster(a_worker_group(resources=SMALL))))[1]
    assert pod["containers"][0]["resources"]["limits"] == {"cpu": "2500m", "memory": "8Gi"}
    assert "FI_EFA_USE_HUGE_PAGE" not in env(pod)


def test_efa_runs_without_huge_pages_so_that_data_loaders_can_fork(worker: Object) -> None:
    assert env(worker)["FI_EFA_USE_HUGE_PAGE"] == "0"
    assert not any(name.startswith("hugepages") for name in worker["containers"][0]["resources"]["limits"])


def test_shared_memory_is_memory_and_leaves_half_of_the_pods(worker: Object) -> None:
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{900 * 1024}Mi"}} in worker[
        "volumes"
    ]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in worker["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("which", [0, 1])
class TestEveryPod:
    @pytest.fixture
    def pod(self, which: int) -> Object:
        return pods(rendered(a_ray_cluster()))[which]

    def test_leaves_a_lost_node_within_seconds(self, pod: Object) -> None:
        seconds = {toleration["key"]: toleration["tolerationSeconds"] for toleration in pod["tolerations"]}
        assert seconds == {"node.kubernetes.io/not-ready": 30, "node.kubernetes.io/unreachable": 30}

    def test_never_runs_on_a_node_under_deep_checks_or_awaiting_replacement(self, pod: Object) -> None:
        required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        [term] = required["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": "sagemaker.amazonaws.com/node-health-status", "operator": "In", "values": ["Schedulable"]}
        ]
        assert not any("sagemaker" in toleration["key"] for toleration in pod["tolerations"])

    def test_finds_its_instance_group_by_a_label_that_a_replaced_node_keeps(self, pod: Object, which: int) -> None:
        group = ["head-group", "worker-group-1"][which]
        assert pod["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": group}

    def test_meets_pod_securitys_restricted_level(self, pod: Object) -> None:
        security = pod["securityContext"]
        assert security["runAsNonRoot"]
        assert security["runAsUser"] == 1000
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert all(set(volume) - {"name"} <= {"emptyDir", "persistentVolumeClaim"} for volume in pod["volumes"])

    def test_gets_an_aws_identity_and_no_token_for_the_kubernetes_api(self, pod: Object) -> None:
        assert pod["serviceAccountName"] == "ray"
        assert pod["automountServiceAccountToken"] is False

    def test_is_replaced_rather_than_restarted_on_its_node(self, pod: Object) -> None:
        assert pod["restartPolicy"] == "Never"

    def test_has_time_for_ray_stop(self, pod: Object) -> None:
        assert pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1] == "ray stop"
        assert pod["terminationGracePeriodSeconds"] > 16

    def test_probes_wait_longer_than_kuberays_two_seconds(self, pod: Object) -> None:
        for kind in ("readinessProbe", "livenessProbe"):
            probe = pod["containers"][0][kind]
            checks = probe["exec"]["command"][-1]
            assert probe["timeoutSeconds"] >= 5 * checks.count("wget")
            assert checks.count("wget") == checks.count("--tries 1")


def test_workers_share_no_node(worker: Object) -> None:
    [term] = worker["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"] == {"matchLabels": {"ray.io/node-type": "worker"}}


@pytest.mark.parametrize("checked", [False, True])
def test_workers_run_where_other_groups_stand_in_if_the_first_has_no_node(checked: bool) -> None:
    place = Placement("gpu", {"team": "a"}, stand_ins=("gpu-b", "gpu-c"))
    pod = pods(rendered(a_ray_cluster(a_worker_group(place=place, prefer_deep_checked=checked))))[1]
    assert pod["nodeSelector"] == {"team": "a"}
    affinity = pod["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    healthy, either = term["matchExpressions"]
    assert (healthy["key"], healthy["values"]) == (NODE_HEALTH_LABEL, ["Schedulable"])
    groups = ["gpu", "gpu-b", "gpu-c"]
    assert either == {"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": groups}
    preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    of_groups, of_checks = preferred[:3], preferred[3:]
    assert [each["preference"]["matchExpressions"][0]["values"] for each in of_groups] == [[name] for name in groups]
    weights = [each["weight"] for each in of_groups]
    assert weights == sorted(weights, reverse=True)
    assert len(set(weights)) == 3
    assert len(of_checks) == checked
    assert groups_of(pod) == groups, "the review reads the same"


@pytest.mark.parametrize(("checked", "preferred"), [(True, True), (False, False)])
def test_nodes_that_passed_deep_checks_are_preferred_where_there_are_checks(checked: bool, preferred: bool) -> None:
    pod = pods(rendered(a_ray_cluster(a_worker_group(prefer_deep_checked=checked))))[1]
    affinity: dict[str, Any] = pod["affinity"]["nodeAffinity"]
    assert ("preferredDuringSchedulingIgnoredDuringExecution" in affinity) is preferred
