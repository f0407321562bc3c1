"""Helm releases: the values for third-party charts."""

from typing import Any

import pytest

from config import EksEnvironment
from config.facts import charts_lock, versions
from config.labels import SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from config.model import KubeflowPart, Taint
from k8s_charts.helm.hyperpod_dependencies import hyperpod_dependencies_release
from k8s_charts.helm.kuberay import kuberay_release
from k8s_charts.platform_objects import platform_objects
from tests.charts.support.facts import PLATFORM_FACTS


def test_releases_are_of_locked_charts_only(dev: EksEnvironment) -> None:
    objects = platform_objects(dev, PLATFORM_FACTS)
    assert {objects.fsx_csi.chart, objects.kuberay.chart} <= {chart.name for chart in charts_lock.locked()}


def test_operator_runs_the_released_image_and_not_the_charts_default() -> None:
    values = kuberay_release(version="1.2.0", namespace="kuberay", ray_pods=5).values
    assert values["image"] == {"repository": "quay.io/kuberay/operator", "tag": "v1.2.0"}


def test_operator_reports_conditions_since_its_state_ready_is_sticky() -> None:
    values = kuberay_release(version="1.2.0", namespace="kuberay", ray_pods=5).values
    assert values["featureGates"] == [{"name": "RayClusterStatusConditions", "enabled": True}]


@pytest.mark.parametrize("version", versions.KUBERAY_VERSIONS)
def test_every_version_gets_its_own_image_kinds_and_only_feature_gates_that_it_knows(
    dev: EksEnvironment, version: str
) -> None:
    chosen = dev.model_copy(update={"kuberay": dev.kuberay.model_copy(update={"version": version})})
    objects = platform_objects(chosen, PLATFORM_FACTS)
    assert objects.kuberay.version == objects.kuberay_crds.version == version
    assert objects.kuberay.values["image"]["tag"] == f"v{version}"
    assert {gate["name"] for gate in objects.kuberay.values["featureGates"]} <= set(versions.KUBERAY_VERSIONS[version])


def test_operator_watches_all_namespaces() -> None:
    values = kuberay_release(version="1.2.0", namespace="kuberay", ray_pods=5).values
    assert not {"watchNamespace", "singleNamespaceInstall"} & set(values)


def test_operator_has_memory_for_its_pods() -> None:
    """The chart's note: 500 Ray pods need about 500 MB."""
    few, many = (kuberay_release(version="1.2.0", namespace="kuberay", ray_pods=n).values for n in (0, 1000))
    assert few["resources"]["limits"]["memory"] == "512Mi"
    assert many["resources"]["limits"]["memory"] == many["resources"]["requests"]["memory"] == "1536Mi"


def test_one_more_worker_does_not_restart_the_operator() -> None:
    two, three = (kuberay_release(version="1.2.0", namespace="kuberay", ray_pods=pods) for pods in (3, 4))
    assert two == three


def test_operators_run_on_system_nodes(dev: EksEnvironment) -> None:
    """While GPU nodes are checked, the only schedulable instance group node may be a CPU node with room for 14 pods."""
    objects = platform_objects(dev, PLATFORM_FACTS)
    place = {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE}
    assert objects.kuberay.values["nodeSelector"] == place
    assert objects.fsx_csi.values["controller"]["nodeSelector"] == place


def test_csi_driver_is_told_its_region_since_pods_have_no_instance_metadata(dev: EksEnvironment) -> None:
    values = platform_objects(dev, PLATFORM_FACTS).fsx_csi.values
    assert values["controller"]["region"] == values["node"]["region"] == "us-west-2"


def test_csi_drivers_account_is_the_projects_and_carries_its_role(dev: EksEnvironment) -> None:
    objects = platform_objects(dev, PLATFORM_FACTS)
    [account] = objects.fsx_csi_account.to_json()
    assert objects.fsx_csi.values["controller"]["serviceAccount"] == {
        "create": False,
        "name": account["metadata"]["name"],
    }
    assert objects.fsx_csi.namespace == account["metadata"]["namespace"] == "kube-system"
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": PLATFORM_FACTS.fsx_csi_role_arn}


def test_volumes_stay_mounted_on_nodes_that_are_checked_or_drained(dev: EksEnvironment) -> None:
    assert platform_objects(dev, PLATFORM_FACTS).fsx_csi.values["node"]["tolerateAllTaints"] is True


def test_device_plugins_keep_the_charts_own_tolerations_beside_those_of_the_groups() -> None:
    """A list in the values replaces the chart's list, and a GPU node without its device plugin offers no GPUs."""
    taint = Taint(key="team", value="a", effect="NoSchedule")
    values = hyperpod_dependencies_release(region="us-west-2", taints=[taint, taint]).values
    assert values["nvidia-device-plugin"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {
            "key": "sagemaker.amazonaws.com/node-health-status",
            "operator": "Equal",
            "value": "Unschedulable",
            "effect": "NoSchedule",
        },
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
    ]


def test_without_taints_the_charts_tolerations_are_left_alone() -> None:
    values = hyperpod_dependencies_release(region="us-west-2").values
    assert not any("tolerations" in part for part in values.values())


@pytest.mark.parametrize(
    ("component", "switch"),
    [
        ("health-monitoring-agent", {"enabled": True}),
        ("deep-health-check", {"enabled": True}),
        ("job-auto-restart", {"enabled": True}),
        ("mpi-operator", {"enabled": True}),
        ("nvidia-device-plugin", {"devicePlugin": {"enabled": True}}),
        ("neuron-device-plugin", {"devicePlugin": {"enabled": True}}),
        ("aws-efa-k8s-device-plugin", {"devicePlugin": {"enabled": True}}),
    ],
)
def test_components_that_aws_calls_required_are_on(component: str, switch: dict[str, Any]) -> None:
    """AWS docs, sagemaker-hyperpod-eks-install-packages-using-helm-chart: without them CreateCluster may fail."""
    values = hyperpod_dependencies_release(region="us-west-2").values
    assert {**values[component], **switch} == values[component]


def test_a_sub_chart_is_on_when_it_is_named() -> None:
    values = hyperpod_dependencies_release(region="us-west-2", sub_charts=["cluster-role-and-bindings"]).values
    assert values["cluster-role-and-bindings"] == {"enabled": True}
    assert values["namespaced-role-and-bindings"] == {"enabled": False}


@pytest.mark.parametrize(
    ("part", "left_out"),
    [
        ("namespace", {"training-operators": {"createNamespace": False}}),
        ("training-operator", {"trainingOperators": {"enabled": False}}),
        ("mpi-operator", {"mpi-operator": {"enabled": False}}),
    ],
)
def test_kubeflow_parts_that_the_cluster_has_are_left_out(
    part: KubeflowPart, left_out: dict[str, dict[str, bool]]
) -> None:
    whole = hyperpod_dependencies_release(region="us-west-2").values
    assert hyperpod_dependencies_release(region="us-west-2", kubeflow=[part]).values == {**whole, **left_out}
