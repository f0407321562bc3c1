"""HyperPod's own chart: health checks, device plugins, and what the service requires before it creates a cluster."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from config.labels import NODE_HEALTH_LABEL
from config.model import KubeflowPart, Taint
from k8s_charts.helm.release import HelmRelease
from k8s_charts.shared.names import SYSTEM_NAMESPACE
from k8s_charts.shared.tolerations import tolerations

# Sub-charts by the switch that their Chart.yaml names (two forms differ: `trainingOperators`, `<plugin>.devicePlugin`).
# Enabled are those that AWS's page calls required components (sagemaker-hyperpod-eks-install-packages-using-helm-chart)
# and that the service's check for missing dependencies lists, including Kubeflow's MPI operator (docs/adr/0039) and
# plugins for absent hardware; and those that the service is tested with.
_ON: Final = ("health-monitoring-agent", "deep-health-check", "job-auto-restart", "hyperpod-patching", "mpi-operator")
_DEVICE_PLUGINS_ON: Final = ("nvidia-device-plugin", "aws-efa-k8s-device-plugin", "neuron-device-plugin")
# The chart's own tolerations of the plugins whose tolerations are a value: a list in the values replaces them. The
# Neuron plugin's are fixed in its template.
_TOLERATIONS: Final = {
    "nvidia-device-plugin": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "aws-efa-k8s-device-plugin": [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
    ],
}
# Deep health checks taint a node, but need its devices.
_UNDER_CHECK: Final = {"key": NODE_HEALTH_LABEL, "operator": "Equal", "value": "Unschedulable", "effect": "NoSchedule"}
# `storage` and `inferenceOperators` would install a second FSx CSI driver. All are disabled explicitly, so that another
# commit of the chart cannot enable one.
_OFF: Final = (
    "cert-manager",
    "mlflow",
    "inferenceOperators",
    "storage",
    "cluster-role-and-bindings",
    "namespaced-role-and-bindings",
    "team-role-and-bindings",
    "gpu-operator",
)


RELEASE: Final = "hyperpod-dependencies"


def hyperpod_dependencies_release(
    *,
    region: str,
    sub_charts: Sequence[str] = (),
    taints: Sequence[Taint] = (),
    kubeflow: Collection[KubeflowPart] = (),
) -> HelmRelease:
    """Return the release that must exist before CreateCluster.

    Args:
        region: whose registry has the health monitoring agent's images.
        sub_charts: sub-charts to enable as well.
        taints: of the nodes; the device plugins tolerate them.
        kubeflow: parts that the cluster already has. The release leaves them out, because its uninstallation deletes
            the namespaces that it created.
    """
    values: dict[str, dict[str, Any]] = {name: {"enabled": True} for name in (*_ON, "trainingOperators")}
    values |= {name: {"devicePlugin": {"enabled": True}} for name in _DEVICE_PLUGINS_ON}
    values |= {name: {"enabled": name in sub_charts} for name in _OFF}
    if "namespace" in kubeflow:
        values["training-operators"] = {"createNamespace": False}
    if "training-operator" in kubeflow:
        values["trainingOperators"] = {"enabled": False}
    if "mpi-operator" in kubeflow:
        # The pinned chart has no separate switch for the operator's namespace.
        values["mpi-operator"] = {"enabled": False}
    # Otherwise a template guesses the region from the cluster, and uses us-west-2 if it cannot.
    values["health-monitoring-agent"]["region"] = region
    if taints:
        for name, own in _TOLERATIONS.items():
            values[name]["tolerations"] = [*own, _UNDER_CHECK, *tolerations(taints)]
    return HelmRelease(chart="HyperPodHelmChart", name=RELEASE, namespace=SYSTEM_NAMESPACE, values=values)
