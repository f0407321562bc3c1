"""The exporter of EFA: on exactly the nodes that have it, with no right but to read two folders, unseen by others."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from config import EksEnvironment, load
from config.facts.in_cluster import DAEMONSETS
from config.labels import INSTANCE_GROUP_LABEL
from config.model import Taint
from controllers.in_cluster.efa_exporter import COUNTERS, PREFIX
from k8s_charts.helm.images import public_images
from k8s_charts.in_cluster.alerts import ALERTS
from k8s_charts.in_cluster.dashboards import DASHBOARDS
from k8s_charts.in_cluster.sources import metrics
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import EFA_METRICS_NAMESPACE
from ops.isolation.plan import EFA_EXPORTER_HOST, plan
from tests.charts.support.connection_table import with_in_cluster
from tests.charts.support.facts import RAY_FACTS, Object
from tests.support.prometheus import programs


def with_groups(environment: EksEnvironment, **changes: Any) -> EksEnvironment:
    """Return the environment, observed in the cluster, with this change of each instance group that has EFA."""
    groups = [
        group.model_copy(update=changes) if group.type.efa else group for group in environment.hyperpod.instance_groups
    ]
    hyperpod = environment.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    return with_in_cluster(environment.model_copy(update={"hyperpod": hyperpod}))


def objects(environment: EksEnvironment) -> list[Object]:
    charts = ray_objects(environment, RAY_FACTS).observability
    return [item for chart in charts.values() for item in chart.to_json()]


@cache
def of_exporter() -> dict[str, Object]:
    """Return the objects of dev's exporter by kind; a policy by its name."""
    return {
        item["metadata"]["name"] if item["kind"] == "NetworkPolicy" else item["kind"]: item
        for item in objects(with_groups(load("dev")))
        if item["metadata"].get("namespace") == EFA_METRICS_NAMESPACE
    }


def pod(environment: EksEnvironment) -> Object:
    [found] = [
        item
        for item in objects(environment)
        if item["kind"] == "DaemonSet" and item["metadata"]["namespace"] == EFA_METRICS_NAMESPACE
    ]
    spec: Object = found["spec"]["template"]["spec"]
    return spec


def test_it_runs_on_the_groups_with_efa_and_tolerates_their_taints_only() -> None:
    taint = Taint(key="team", value="a", effect="NoSchedule")
    spec = pod(with_groups(load("dev"), taints=(taint,)))
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    with_efa = [group.name for group in load("dev").hyperpod.instance_groups if group.type.efa]
    assert term["matchExpressions"] == [{"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": with_efa}]
    assert spec["tolerations"] == [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]


def test_it_has_no_right_but_to_read_two_folders_of_the_node() -> None:
    spec = of_exporter()["DaemonSet"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    security = container["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert not spec["automountServiceAccountToken"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    folders = [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume]
    assert folders == ["/sys/class", "/sys/devices"]
    bound = [item for kind, item in of_exporter().items() if kind.endswith("Binding")]
    assert [subject["name"] for item in bound for subject in item["subjects"]] == ["prometheus"]


def test_its_namespace_lets_only_prometheus_in_and_nothing_out() -> None:
    policies = {name: item["spec"] for name, item in of_exporter().items() if item["kind"] == "NetworkPolicy"}
    assert policies.keys() == {"default-deny", "allow-scrape-efa"}
    assert policies["allow-scrape-efa"]["policyTypes"] == ["Ingress"]


def test_its_program_starts_from_its_config_map_alone(tmp_path: Path) -> None:
    package = tmp_path / "controllers"
    package.mkdir()
    for name, text in of_exporter()["ConfigMap"]["data"].items():
        (package / name).write_text(text)
    [container] = of_exporter()["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    started = subprocess.run(
        [sys.executable, *container["command"][1:], *container["args"], "--help"],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Export the counters of EFA devices" in started.stdout, started.stderr


def test_dashboards_and_alerts_read_only_what_it_exports() -> None:
    asked = [query.expression for board in DASHBOARDS for panel in board.panels for query in panel.queries]
    read = {metric for text in (*asked, *(alert.expression for alert in ALERTS)) for metric in metrics(text)}
    found = {metric for metric in read if metric.startswith(("efa_", PREFIX))}
    assert (
        {"efa_devices", "efa_unreadable"} < found <= {"efa_devices", "efa_unreadable", *(PREFIX + n for n in COUNTERS)}
    )


def test_panels_add_up_the_devices_of_a_node_and_tell_them_apart_where_one_drops(tmp_path: Path) -> None:
    counters = {"rx_bytes": 600, "rx_drops": 60, "rdma_read_wr_err": 1}
    # promtool's notation: from 0, by the second number each minute.
    inputs = [
        {"series": f'{PREFIX}{name}{{node="a",instance_group="gpus",device="{device}"}}', "values": f"0+{step}x10"}
        for name, step in counters.items()
        for device in ("rdmap0", "rdmap1")
    ]
    of_node = "{node='a'}"
    expected = {
        "rx_bytes": [(of_node, 20)],
        "rx_drops": [("{node='a',device='rdmap0'}", 1), ("{node='a',device='rdmap1'}", 1)],
        "rdma_read_wr_err": [(of_node, 10)],
    }
    [board] = [board for board in DASHBOARDS if board.uid == "efa"]
    asked = [query.expression.replace("$group", ".*") for panel in board.panels for query in panel.queries]
    tests = [
        {"expr": expression, "eval_time": "10m", "exp_samples": [{"labels": on, "value": value} for on, value in found]}
        for name, found in expected.items()
        for expression in asked
        if PREFIX + name + "{" in expression
    ]
    assert len(tests) == len(expected)
    whole = {"tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": tests}]}
    (tmp_path / "tests.json").write_text(json.dumps(whole))
    argv = [str(programs()["promtool"]), "test", "rules", "tests.json"]
    checked = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_its_requests_are_those_that_ops_check_counts() -> None:
    [counted] = [each for each in DAEMONSETS if each.name == "efa-exporter"]
    [container] = of_exporter()["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    requests = container["resources"]["requests"]
    assert requests == {"cpu": f"{counted.cpu_millis}m", "memory": f"{counted.memory_mib}Mi"}


def test_it_needs_no_image_that_the_controllers_do_not_need() -> None:
    with_efa, without = with_groups(load("dev")), with_groups(load("dev"), instance_type="ml.g5.4xlarge")
    assert set(public_images(with_efa)) == set(public_images(without))


def test_a_cluster_without_efa_has_nothing_of_it() -> None:
    text = str(objects(with_groups(load("dev"), instance_type="ml.g5.4xlarge", type_facts=None))).lower()
    assert "dcgm" in text
    assert "efa_" not in text.replace("amazonefa_", "efa_")
    assert EFA_METRICS_NAMESPACE not in text


@pytest.mark.parametrize(("count", "tried"), [(2, True), (0, False)])
def test_the_isolation_check_tries_the_exporter_only_where_a_node_can_have_one(count: int, *, tried: bool) -> None:
    planned = plan(with_groups(load("dev"), count=count), {"rayml": "head"})
    connections = [each for origin in planned for each in origin.connections]
    found = {each.origin: each.open for each in connections if each.host == EFA_EXPORTER_HOST}
    assert found == (
        {"pod-beside-ray": False, "pod-elsewhere": False, "image-build": False, "prometheus": True} if tried else {}
    )
