"""The objects of Prometheus and Grafana: names that Ray knows, minimal rights, system nodes, and nothing if off."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import yaml

from config import EksEnvironment, load
from config.estimates.costs import estimate
from config.facts.versions import ALERTMANAGER_IMAGE, DCGM_EXPORTER_IMAGE, GRAFANA_IMAGE, PROMETHEUS_IMAGE
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from config.model import Alerts, InCluster, Observability
from k8s_charts.helm.images import public_images, pushed_copy
from k8s_charts.in_cluster.alertmanager import AlertFacts
from k8s_charts.ray.pods import DASHBOARD_ENV
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import PROMETHEUS_NAMESPACE
from k8s_charts.shared.service_account import ROLE_ANNOTATION
from ops.render.manifests import render
from tests.charts.support.facts import RAY_FACTS, Object
from tests.support.sleeping_environment import with_sleep


def observed(
    name: str = "dev", *, emails: tuple[str, ...] = ("ml-platform@example.com",), **settings: Any
) -> EksEnvironment:
    wanted = Observability(in_cluster=InCluster(**settings), alerts=Alerts(emails=emails))
    return load(name).model_copy(update={"observability": wanted})


@cache
def objects(**settings: Any) -> list[Object]:
    charts = ray_objects(observed(**settings), RAY_FACTS).observability
    return [item for chart in charts.values() for item in chart.to_json()]


def of_kind(kind: str, **settings: Any) -> dict[str, Object]:
    """Return the objects of a kind by name, those of other namespaces with that before it."""
    found = [item for item in objects(**settings) if item["kind"] == kind]
    return {"/".join(filter(None, (_elsewhere(item), item["metadata"]["name"]))): item for item in found}


def _elsewhere(item: Object) -> str:
    namespace: str = item["metadata"].get("namespace", "")
    return "" if namespace == PROMETHEUS_NAMESPACE else namespace


def pods() -> dict[str, Object]:
    return {name: item["spec"]["template"]["spec"] for name, item in of_kind("Deployment").items()}


@pytest.mark.parametrize("name", ["dev", "closed", "existing-eks"])
def test_an_environment_without_the_key_has_none_of_the_objects_and_its_other_objects_are_the_same(name: str) -> None:
    off, on = render(load(name)), render(observed(name))
    added = {str(path) for path in on.keys() - off.keys()}
    efa = ("efa-namespace", "efa-policies") if observed(name).observed_efa_groups else ()
    parts = ("alertmanager", "namespace", "policies", "programs", "gpu-namespace", "gpu-policies", *efa)
    assert added == {f"{name}/ray/observability/{part}.yaml" for part in parts}
    changed = {path.name for path in off if off[path] != on[path]}
    # The supervisors of runs are scraped, viewers may look, and workers leave room for the exporters of GPUs and EFA.
    assert changed <= {"policies.yaml", "viewers.yaml", "rayml.yaml"}


def test_the_sleeper_is_watched_only_where_a_group_sleeps() -> None:
    def shown(environment: EksEnvironment) -> tuple[set[str], set[str], set[str]]:
        programs = ray_objects(environment, RAY_FACTS).observability["programs"].to_json()
        data = {item["metadata"]["name"]: item["data"] for item in programs if item["kind"] == "ConfigMap"}
        jobs = json.loads(data["prometheus"]["prometheus.yaml"])["scrape_configs"]
        rules = json.loads(data["prometheus"]["rules.yaml"])["groups"][0]["rules"]
        boards = {name for files in data.values() for name in files if name.endswith(".json")}
        return {job["job_name"] for job in jobs}, {rule["alert"] for rule in rules}, boards

    without, asleep = shown(observed()), shown(with_sleep(observed()))
    assert [more - fewer for fewer, more in zip(without, asleep, strict=True)] == [
        {"sleeper"},
        {"GroupDoesNotWake", "SleeperBlind"},
        {"sleep.json"},
    ]


def test_without_receivers_nothing_of_alertmanager_is_there() -> None:
    files = {path.name: text for path, text in render(observed(emails=())).items() if "observability" in path.parts}
    exporters = {f"{part}-{kind}.yaml" for part in ("gpu", "efa") for kind in ("namespace", "policies")}
    assert files.keys() == {"namespace.yaml", "policies.yaml", "programs.yaml", *exporters}
    assert not [name for name, text in files.items() if "alertmanager" in text]
    assert ALERTMANAGER_IMAGE not in {image.image for image in public_images(observed(emails=()))}


def test_alertmanager_without_a_topic_is_refused() -> None:
    with pytest.raises(ValueError, match="dev: Alertmanager needs a topic and a role"):
        ray_objects(observed(), replace(RAY_FACTS, alerts=None))


def test_only_alertmanagers_account_has_a_role_and_another_topic_restarts_it() -> None:
    annotated = {name: item["metadata"].get("annotations") for name, item in of_kind("ServiceAccount").items()}
    assert RAY_FACTS.alerts
    assert annotated.pop("alertmanager") == {ROLE_ANNOTATION: RAY_FACTS.alerts.role_arn}
    assert annotated
    assert not any(annotated.values())

    def read(topic: str) -> str:
        facts = replace(RAY_FACTS, alerts=AlertFacts(topic, "role"))
        [pod] = [
            item["spec"]["template"]
            for item in ray_objects(observed(), facts).observability["alertmanager"].to_json()
            if item["kind"] == "Deployment"
        ]
        return str(pod["metadata"]["annotations"]["ray-on-hyperpod/configuration"])

    one, other = read("${Token[TOPIC.1]}"), read("${Token[TOPIC.2]}")
    assert one.replace("TOPIC.1", "TOPIC.2") == other != one


def test_rays_dashboard_finds_both_at_the_addresses_that_its_head_knows() -> None:
    services = {
        f"http://{name}.{PROMETHEUS_NAMESPACE}.svc:{port['port']}": port["targetPort"]
        for name, item in of_kind("Service").items()
        if "/" not in name
        for port in item["spec"]["ports"]
    }
    assert services.pop("http://alertmanager.prometheus-system.svc:9093") == 9093
    assert services == {DASHBOARD_ENV["RAY_PROMETHEUS_HOST"]: 9090, DASHBOARD_ENV["RAY_GRAFANA_HOST"]: 3000}


def test_no_service_is_public() -> None:
    assert {item["spec"].get("type", "ClusterIP") for item in of_kind("Service").values()} == {"ClusterIP"}
    for quota in of_kind("ResourceQuota").values():
        assert {"services.loadbalancers", "services.nodeports"} <= quota["spec"]["hard"].keys()


def test_each_service_reaches_only_its_deployment_and_no_probe_of_the_isolation_check() -> None:
    made = of_kind("Deployment") | of_kind("DaemonSet")
    templates = [item["spec"]["template"]["metadata"]["labels"] for item in made.values()]
    for service in of_kind("Service").values():
        selector = service["spec"]["selector"].items()
        assert len([labels for labels in templates if selector <= labels.items()]) == 1
        assert "ray-on-hyperpod/serves" in service["spec"]["selector"]


def test_pods_run_on_system_nodes_without_root_and_write_only_to_their_volumes() -> None:
    for pod in pods().values():
        assert pod["nodeSelector"] == {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE}
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["resources"]["limits"]["memory"]


def test_prometheus_reads_pods_leases_and_nodes_and_submitters_open_grafana_and_nothing_else() -> None:
    rules = {
        name: [(resource, *rule["verbs"]) for rule in item["rules"] for resource in rule["resources"]]
        for kind in ("Role", "ClusterRole")
        for name, item in of_kind(kind).items()
    }
    assert rules == {
        "grafana-port-forward": [("pods", "get", "list"), ("pods/portforward", "get", "create")],
        "ray/prometheus": [("pods", "get", "list", "watch"), ("leases", "list", "watch")],
        "kuberay/prometheus": [("pods", "get", "list", "watch")],
        "gpu-metrics/prometheus": [("pods", "get", "list", "watch")],
        "efa-metrics/prometheus": [("pods", "get", "list", "watch")],
        "image-build/prometheus": [("jobs", "list", "watch")],
        "prometheus-system-prometheus": [("nodes", "list", "watch")],
    }
    bindings = of_kind("RoleBinding") | of_kind("ClusterRoleBinding")
    [people] = bindings.pop("grafana-port-forward")["subjects"]
    assert (people["kind"], people["name"]) == ("Group", "ray-submitters")
    subjects = [subject for item in bindings.values() for subject in item["subjects"]]
    account = {"kind": "ServiceAccount", "name": "prometheus", "namespace": PROMETHEUS_NAMESPACE}
    assert subjects == [account] * 6
    assert not any(pods()[name]["automountServiceAccountToken"] for name in ("grafana", "alertmanager"))


@pytest.mark.parametrize("gib", [10, 40])
def test_metrics_stay_below_the_disk_that_the_pod_requests(gib: int) -> None:
    pod = of_kind("Deployment", storage_gib=gib)["prometheus"]["spec"]["template"]["spec"]
    server = pod["containers"][0]
    [retention] = [each for each in server["args"] if "retention.size" in each]
    assert int(retention.partition("=")[2].removesuffix("MB")) == int(gib * 1024 * 0.8)
    assert server["resources"]["requests"]["ephemeral-storage"] == f"{gib}Gi"
    assert {"name": "data", "emptyDir": {"sizeLimit": f"{gib}Gi"}} in pod["volumes"]


def test_a_changed_configuration_restarts_the_pod_that_reads_it() -> None:
    def digests(environment: EksEnvironment) -> dict[str, str]:
        chart = ray_objects(environment, RAY_FACTS).observability["programs"]
        return {
            item["metadata"]["name"]: item["spec"]["template"]["metadata"]["annotations"][
                "ray-on-hyperpod/configuration"
            ]
            for item in chart.to_json()
            if item["kind"] == "Deployment"
        }

    elsewhere = observed().model_copy(update={"ray": load("dev").ray.model_copy(update={"namespace": "other"})})
    before, after = digests(observed()), digests(elsewhere)
    assert before["prometheus"] != after["prometheus"]
    assert before["grafana"] == after["grafana"]


def test_files_of_config_maps_are_json_or_yaml_and_fit_into_one_object() -> None:
    for item in of_kind("ConfigMap").values():
        assert len(json.dumps(item)) < 1024**2
        for name, text in item["data"].items():
            assert name.endswith((".py", ".csv")) or yaml.safe_load(text)


def test_images_have_a_digest_and_a_copy_is_pushed_by_its_tag() -> None:
    on = {image.image for image in public_images(observed())} - {image.image for image in public_images(load("dev"))}
    assert on == {PROMETHEUS_IMAGE, GRAFANA_IMAGE, ALERTMANAGER_IMAGE, DCGM_EXPORTER_IMAGE}
    assert {image.rpartition("@")[2].partition(":")[0] for image in on} == {"sha256"}
    assert pushed_copy(GRAFANA_IMAGE, "mirror.example.com/a") == "mirror.example.com/a/grafana/grafana:12.1.0"


def test_costs_name_all_three_and_the_system_nodes_that_pay_for_them() -> None:
    [added] = set(estimate(observed())) - set(estimate(load("dev")))
    assert (added.what, added.usd_per_hour) == ("Prometheus, Grafana and Alertmanager: on the system nodes", 0.0)
