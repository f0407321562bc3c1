"""HyperPod's own chart: health checks, device plugins and what the service looks for before it makes a cluster."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from config.labels import NODE_HEALTH_LABEL
from config.model import KubeflowPart, Taint
from k8s_charts.helm.release import HelmRelease
from k8s_charts.shared.names import SYSTEM_NAMESPACE
from k8s_charts.shared.tolerations import tolerations

# Sub-charts by the switch that their Chart.yaml names (it differs: `trainingOperators`, `<plugin>.devicePlugin`).
# On is what the service is tested with and what its check for missing dependencies lists, Kubeflow's operators and
# plugins of absent hardware included.
_ON: Final = ("health-monitoring-agent", "deep-health-check", "job-auto-restart", "hyperpod-patching", "mpi-operator")
_DEVICE_PLUGINS_ON: Final = ("nvidia-device-plugin", "aws-efa-k8s-device-plugin", "neuron-device-plugin")
# The chart's own tolerations of the plugins that take others by values: a list of values replaces them. The Neuron
# plugin's stand in its template.
_TOLERATIONS: Final = {
    "nvidia-device-plugin": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "aws-efa-k8s-device-plugin": [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
    ],
}
# Deep health checks taint a node and need its devices.
_UNDER_CHECK: Final = {"key": NODE_HEALTH_LABEL, "operator": "Equal", "value": "Unschedulable", "effect": "NoSchedule"}
# `storage` and `inferenceOperators` would bring a second FSx CSI driver. All are said, so that another commit of the
# chart cannot turn one on.
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
    """Release that must exist before CreateCluster, with the health monitoring agent's images of `region`.

    `sub_charts` are switched on too. `taints` are those of the nodes: device plugins tolerate them. `kubeflow` is what
    the cluster has already and the release leaves out: an uninstall deletes the namespaces that the release brought.
    """
    values: dict[str, dict[str, Any]] = {name: {"enabled": True} for name in (*_ON, "trainingOperators")}
    values |= {name: {"devicePlugin": {"enabled": True}} for name in _DEVICE_PLUGINS_ON}
    values |= {name: {"enabled": name in sub_charts} for name in _OFF}
    if "namespace" in kubeflow:
        values["training-operators"] = {"createNamespace": False}
    if "training-operator" in kubeflow:
        values["trainingOperators"] = {"enabled": False}
    if "mpi-operator" in kubeflow:
        # The pinned chart has no switch for the operator's namespace alone.
        values["mpi-operator"] = {"enabled": False}
    # Else a template guesses it from the cluster, and from us-west-2 where it cannot.
    values["health-monitoring-agent"]["region"] = region
    if taints:
        for name, own in _TOLERATIONS.items():
            values[name]["tolerations"] = [*own, _UNDER_CHECK, *tolerations(taints)]
    return HelmRelease(chart="HyperPodHelmChart", name=RELEASE, namespace=SYSTEM_NAMESPACE, values=values)
