"""HyperPod's own chart: health checks, device plugins and what the service looks for before it makes a cluster."""

from typing import Any, Final

from k8s_charts.helm import HelmRelease
from k8s_charts.names import SYSTEM_NAMESPACE

# Sub-charts by the switch that their Chart.yaml names (it differs: `trainingOperators`, `<plugin>.devicePlugin`).
# On is what the service is tested with and what its check for missing dependencies lists, Kubeflow's operators and
# plugins of absent hardware included.
_ON: Final = ("health-monitoring-agent", "deep-health-check", "job-auto-restart", "hyperpod-patching", "mpi-operator")
_DEVICE_PLUGINS_ON: Final = ("nvidia-device-plugin", "aws-efa-k8s-device-plugin", "neuron-device-plugin")
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


def hyperpod_dependencies_release(*, region: str) -> HelmRelease:
    """Release that must exist before CreateCluster, with the health monitoring agent's images of `region`."""
    values: dict[str, dict[str, Any]] = {name: {"enabled": True} for name in (*_ON, "trainingOperators")}
    values |= {name: {"devicePlugin": {"enabled": True}} for name in _DEVICE_PLUGINS_ON}
    values |= {name: {"enabled": False} for name in _OFF}
    # Else a template guesses it from the cluster, and from us-west-2 where it cannot.
    values["health-monitoring-agent"]["region"] = region
    return HelmRelease(
        chart="HyperPodHelmChart", name="hyperpod-dependencies", namespace=SYSTEM_NAMESPACE, values=values
    )
