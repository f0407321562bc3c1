"""The exporter of GPUs: on exactly the nodes that have some, with no right that it does not need, unseen by others."""

import csv
from functools import cache
from typing import Any

import pytest

from config import EksEnvironment, load
from config.facts.in_cluster import DAEMONSETS
from config.facts.versions import DCGM_EXPORTER_IMAGE
from config.labels import INSTANCE_GROUP_LABEL
from config.model import Taint
from controllers import busy_gpus
from k8s_charts.helm.images import public_images
from k8s_charts.in_cluster.alerts import ALERTS
from k8s_charts.in_cluster.dashboards import DASHBOARDS
from k8s_charts.in_cluster.gpu_exporter import METRICS
from k8s_charts.in_cluster.sources import metrics
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import DCGM_PORT, GPU_METRICS_NAMESPACE
from ops.isolation.plan import plan
from tests.charts.support.connection_table import with_in_cluster
from tests.charts.support.facts import RAY_FACTS, Object
from tests.support.sleeping_environment import with_sleep


def with_groups(environment: EksEnvironment, **changes: Any) -> EksEnvironment:
    """Return the environment with this change of each instance group that has GPUs."""
    groups = [
        group.model_copy(update=changes) if group.type.gpus else group for group in environment.hyperpod.instance_groups
    ]
    hyperpod = environment.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    return environment.model_copy(update={"hyperpod": hyperpod})


def objects(environment: EksEnvironment) -> list[Object]:
    charts = ray_objects(environment, RAY_FACTS).observability
    return [item for chart in charts.values() for item in chart.to_json()]


@cache
def of_exporter() -> dict[str, Object]:
    """Return the objects of dev's exporter by kind."""
    return {
        item["kind"]: item
        for item in objects(with_in_cluster(load("dev")))
        if item["metadata"].get("namespace") == GPU_METRICS_NAMESPACE
    }


def pod(environment: EksEnvironment | None = None) -> Object:
    made = objects(environment or with_in_cluster(load("dev")))
    [found] = [
        item for item in made if item["kind"] == "DaemonSet" and item["metadata"]["namespace"] == GPU_METRICS_NAMESPACE
    ]
    spec: Object = found["spec"]["template"]["spec"]
    return spec


def test_it_runs_on_the_groups_with_gpus_and_tolerates_their_taints_but_no_deep_health_check() -> None:
    taint = Taint(key="team", value="a", effect="NoSchedule")
    spec = pod(with_in_cluster(with_groups(load("dev"), taints=(taint,))))
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    with_gpus = [group.name for group in load("dev").hyperpod.instance_groups if group.type.gpus]
    assert term["matchExpressions"] == [{"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": with_gpus}]
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
    ]


def test_it_has_one_capability_no_token_and_writes_only_to_folders_that_go_with_it() -> None:
    spec = pod()
    [container] = spec["containers"]
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert not spec["automountServiceAccountToken"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    writable = {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume} == writable
    assert not {"RoleBinding", "ClusterRoleBinding"} & {
        kind for kind, item in of_exporter().items() if item.get("subjects", [{}])[0].get("name") == "dcgm-exporter"
    }


def test_its_namespace_lets_only_prometheus_in_and_nothing_out() -> None:
    made = objects(with_in_cluster(load("dev")))
    policies = [item for item in made if item["metadata"].get("namespace") == GPU_METRICS_NAMESPACE]
    rules = {item["metadata"]["name"]: item["spec"] for item in policies if item["kind"] == "NetworkPolicy"}
    assert rules.keys() == {"default-deny", "allow-scrape-gpus"}
    assert rules["allow-scrape-gpus"]["policyTypes"] == ["Ingress"]


def test_its_namespace_lets_the_sleeper_in_if_a_group_sleeps() -> None:
    made = objects(with_sleep(with_in_cluster(load("dev"))))
    policies = [item for item in made if item["metadata"].get("namespace") == GPU_METRICS_NAMESPACE]
    rules = {item["metadata"]["name"]: item["spec"] for item in policies if item["kind"] == "NetworkPolicy"}
    assert rules.keys() == {"default-deny", "allow-scrape-gpus", "allow-sleeper"}
    [rule] = rules["allow-sleeper"]["ingress"]
    [peer] = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kuberay"}
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "sleeper"}
    assert rule["ports"] == [{"port": DCGM_PORT, "protocol": "TCP"}]


def test_it_collects_what_the_sleeper_asks_for() -> None:
    assert busy_gpus.METRIC in METRICS
    assert (busy_gpus.EXPORTERS_NAMESPACE, busy_gpus.PORT) == (GPU_METRICS_NAMESPACE, DCGM_PORT)


def test_it_collects_what_a_dashboard_or_an_alert_reads_and_nothing_else() -> None:
    asked = [query.expression for board in DASHBOARDS for panel in board.panels for query in panel.queries]
    read = {metric for text in (*asked, *(alert.expression for alert in ALERTS)) for metric in metrics(text)}
    assert METRICS.keys() == {metric for metric in read if metric.startswith("DCGM_")}


def test_its_list_of_metrics_has_three_fields_in_each_line() -> None:
    """The exporter does not start otherwise (its counter_config.go)."""
    [text] = of_exporter()["ConfigMap"]["data"].values()
    rows = [[field.strip(" ") for field in row] for row in csv.reader(text.splitlines())]
    assert [row[0] for row in rows] == list(METRICS)
    assert {len(row) for row in rows} == {3}
    assert {row[1] for row in rows} <= {"gauge", "counter"}


def test_its_requests_are_those_that_ops_check_counts() -> None:
    [counted] = [each for each in DAEMONSETS if each.name == "dcgm-exporter"]
    requests = pod()["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": f"{counted.cpu_millis}m", "memory": f"{counted.memory_mib}Mi"}


def test_a_closed_network_pulls_its_image_from_the_own_registry() -> None:
    closed = with_in_cluster(load("closed"))
    assert DCGM_EXPORTER_IMAGE in {image.image for image in public_images(closed) if image.copied}
    assert pod(closed)["containers"][0]["image"].startswith(f"{closed.image_registry}/nvidia/k8s/dcgm-exporter:")


@pytest.mark.parametrize("kind", ["ml.m5.4xlarge", "ml.trn1.32xlarge"])
def test_a_cluster_without_nvidias_gpus_has_nothing_of_it(kind: str) -> None:
    environment = with_in_cluster(with_groups(load("dev"), instance_type=kind, type_facts=None))
    text = str(objects(environment)).lower()
    assert "prometheus" in text
    assert not [word for word in ("dcgm", GPU_METRICS_NAMESPACE, "xiderror") if word in text]
    assert DCGM_EXPORTER_IMAGE not in {image.image for image in public_images(environment)}


@pytest.mark.parametrize(("count", "tried"), [(2, True), (0, False)])
def test_the_isolation_check_tries_the_exporter_only_where_a_node_can_have_one(count: int, *, tried: bool) -> None:
    planned = plan(with_in_cluster(with_groups(load("dev"), count=count)), {"rayml": "head"})
    found = {each.origin: each.open for origin in planned for each in origin.connections if each.port == 9400}
    assert found == (
        {"pod-beside-ray": False, "pod-elsewhere": False, "image-build": False, "prometheus": True} if tried else {}
    )
