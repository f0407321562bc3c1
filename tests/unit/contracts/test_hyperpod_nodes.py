"""HyperPod's nodes and its Helm chart, held against our labels, release and tables, and against the simulator."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import yaml

from config import labels
from config.facts.daemonsets import daemonsets_on
from config.facts.instance_types import catalogue
from config.model import Taint
from controllers import decision
from controllers.in_cluster import exporter
from embedded_account.hyperpod import instance_types, nodes
from embedded_account.hyperpod.model import (
    DeepCheck,
    Node,
    NodeHealth,
    NodeSubnet,
    SimulatedCluster,
    SimulatedGroup,
)
from k8s_charts.helm import hyperpod_dependencies
from ops.change import scale_plan
from ops.jobs.operators import pytorchjob
from rehearsal import stand_ins
from rehearsal.paths import REPOSITORY
from rehearsal.pytorchjob import auto_resume
from tests.unit.contracts.contract import read

FACTS: Final = read("hyperpod_nodes")
CHART: Final = yaml.safe_load((REPOSITORY / "rehearsal/stand_ins/charts/HyperPodHelmChart/values.yaml").read_text())


def listed(types: Mapping[str, list[str]]) -> set[str]:
    """Return the instance types of a fact."""
    return {f"ml.{family}.{size}" for family, sizes in types.items() for size in sizes}


def ordered(tolerations: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return tolerations in an order of their own: Kubernetes gives it no meaning."""
    return sorted(tolerations, key=lambda each: sorted(each.items()))


def test_product_reads_the_published_labels_and_values() -> None:
    assert {labels.NODE_HEALTH_LABEL, decision.HEALTH_LABEL, exporter._HEALTH} == {FACTS["health_label"]}
    assert {labels.DEEP_HEALTH_LABEL, exporter._DEEP_HEALTH} == {FACTS["deep_check_label"]}
    assert {labels.INSTANCE_GROUP_LABEL, exporter._GROUP} == {FACTS["group_label"]}
    assert sorted(decision.PENDING) == FACTS["recovery_values"]
    assert labels.NODE_SCHEDULABLE in FACTS["health_values"]
    assert labels.DEEP_HEALTH_PASSED in FACTS["deep_check_values"]
    assert FACTS["auto_resume_annotations"] == [pytorchjob.AUTO_RESUME, pytorchjob.MAX_RETRIES]


def released(*taints: Taint) -> dict[str, Any]:
    """Return the values of our release of HyperPod's chart."""
    return dict(hyperpod_dependencies.hyperpod_dependencies_release(region="us-west-2", taints=taints).values)


def switched(values: Mapping[str, Any], *, on: bool) -> list[str]:
    """Return the sub-charts that values switch on or off, by the switch that the chart has for each."""
    plugins = FACTS["switched_as_plugins"]
    found = {name: value.get("devicePlugin" if name in plugins else "", value) for name, value in values.items()}
    return sorted((name for name, value in found.items() if value.get("enabled") is on), key=str.lower)


def test_product_switches_the_charts_parts_as_the_chart_does() -> None:
    assert switched(released(), on=True) == sorted(FACTS["on_by_default"], key=str.lower)
    assert switched(released(), on=False) == sorted(FACTS["off_by_default"], key=str.lower)


def test_product_keeps_the_plugins_own_tolerations_where_it_adds_some() -> None:
    own = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    values = released(Taint(key="team", value="a", effect="NoSchedule"))
    found = {
        name: ordered(values[name]["tolerations"]) for name in ("nvidia-device-plugin", "aws-efa-k8s-device-plugin")
    }
    assert found == {
        "nvidia-device-plugin": ordered([*FACTS["nvidia_tolerations"], own]),
        "aws-efa-k8s-device-plugin": ordered([*FACTS["efa_tolerations"], own]),
    }
    assert FACTS["taint"].items() <= hyperpod_dependencies._UNDER_CHECK.items()


def test_product_counts_the_daemonsets_where_the_chart_runs_them() -> None:
    published = {
        "health-monitoring-agent": listed(FACTS["agent_types"]),
        "health-monitoring-agent-non-nvidia": listed(FACTS["agent_of_neuron_types"]),
        "neuron-device-plugin": listed(FACTS["plugin_of_neuron_types"]),
        "nvidia-device-plugin": listed(FACTS["nvidia_types"]),
        "aws-efa-k8s-device-plugin": listed(FACTS["efa_types"]),
    }
    for name, kind in catalogue().items():
        counted = {each.name for each in daemonsets_on(kind)} & published.keys()
        assert counted == {daemonset for daemonset, types in published.items() if name in types}, name


def test_both_request_what_the_agent_requests() -> None:
    agents = ("health-monitoring-agent", "health-monitoring-agent-non-nvidia")
    for name in ("ml.p5.48xlarge", "ml.trn1.32xlarge"):
        [agent] = [each for each in daemonsets_on(catalogue()[name]) if each.name in agents]
        requests = {"cpu": f"{agent.cpu_millis}m", "memory": f"{agent.memory_mib}Mi"}
        assert requests == FACTS["agent_requests"]
        assert stand_ins.agents()[agent.name]["requests"] == FACTS["agent_requests"]


def simulated(**state: Any) -> nodes.KubernetesNode:
    """Return a node of the embedded account as Kubernetes shows it."""
    kind, now = instance_types.find("ml.g5.8xlarge"), datetime.now(UTC)
    assert kind
    group = SimulatedGroup({"InstanceGroupName": "gpu", "InstanceType": kind.name})
    cluster = SimulatedCluster("ml", "arn:aws:sagemaker:us-west-2:1:cluster/abc", {}, {"gpu": group}, now, "eks")
    subnet = NodeSubnet("subnet-0", "vpc-0", "us-west-2a", "usw2-az1")
    return nodes.as_kubernetes(cluster, Node("i-0", "gpu", kind, 1, now, subnet, (), **state))


def test_simulator_labels_nodes_as_published() -> None:
    node = simulated(deep_check=DeepCheck.PASSED)
    assert node.labels[FACTS["group_label"]] == "gpu"
    assert node.labels[FACTS["cluster_label"]] == "ml"
    assert node.labels[FACTS["health_label"]] == "Schedulable"
    assert node.labels[FACTS["deep_check_label"]] == "Passed"
    assert node.taints == ()
    assert sorted(NodeHealth) == FACTS["health_values"]
    assert sorted(DeepCheck) == FACTS["deep_check_values"]
    assert FACTS["auto_resume_annotations"] == [auto_resume._AUTO_RESUME, auto_resume._MAX_RETRIES]


def test_both_name_nodes_as_published() -> None:
    published = FACTS["node_name"].replace("{instance id}", "i-0")
    assert simulated().name == published
    assert scale_plan._name({"InstanceId": "i-0"}) == published


@pytest.mark.parametrize("health", FACTS["recovery_values"])
def test_simulator_labels_annotates_and_taints_a_faulty_node(health: str) -> None:
    node = simulated(health=NodeHealth(health), fault="NvidiaGpuXid_79")
    assert {label: node.labels[label] for label in FACTS["fault_labels"]} == dict.fromkeys(
        FACTS["fault_labels"], "NvidiaGpuXid_79"
    )
    assert isinstance(yaml.safe_load(node.annotations[FACTS["fault_annotation"]]), list)
    assert node.taints == (FACTS["taint"],)


def test_simulator_taints_a_node_under_deep_checks() -> None:
    assert simulated(deep_check=DeepCheck.IN_PROGRESS).taints == (FACTS["taint"],)


def test_simulator_has_the_charts_switches() -> None:
    off = [name for name in FACTS["off_by_default"] if name in CHART]
    assert switched({name: value for name, value in CHART.items() if name != "standIn"}, on=True) == sorted(
        FACTS["on_by_default"], key=str.lower
    )
    assert all(CHART[name] == {"enabled": False} for name in off)


def test_simulator_runs_the_charts_daemonsets() -> None:
    fixed = {
        "health-monitoring-agent": FACTS["agent"],
        "health-monitoring-agent-non-nvidia": FACTS["agent_of_neuron"],
        "neuron-device-plugin": FACTS["plugin_of_neuron"],
    }
    agents = CHART["standIn"]["agents"]
    assert {name: {key: agents[name][key] for key in facts} for name, facts in fixed.items()} == fixed
    assert CHART["nvidia-device-plugin"]["tolerations"] == FACTS["nvidia_tolerations"]
    assert CHART["aws-efa-k8s-device-plugin"]["tolerations"] == FACTS["efa_tolerations"]
