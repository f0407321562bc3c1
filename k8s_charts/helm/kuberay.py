"""The KubeRay operator: its Helm values, and its CRDs as a release of their own.

They exceed what a manifest can carry; and those in a chart's `crds/` Helm would neither upgrade nor remove.
"""

import math
from typing import Final

from k8s_charts.helm.release import HelmRelease, on_system_nodes
from k8s_charts.shared.names import SYSTEM_NAMESPACE

CHART: Final = "kuberay-operator"
CRDS_RELEASE: Final = "kuberay-crds"
CRDS_NAMESPACE: Final = SYSTEM_NAMESPACE
_MEMORY_STEP_MIB: Final = 128


def kuberay_crds_release(*, version: str) -> HelmRelease:
    """Release of RayCluster, RayJob and RayService themselves, as KubeRay `version` has them.

    Its name and namespace are fixed: Helm knows by them that the definitions are its own, and under others it would
    refuse them. Uninstalling it ends every object of these kinds in the cluster.
    """
    return HelmRelease(
        chart=CHART, version=version, name=CRDS_RELEASE, namespace=CRDS_NAMESPACE, values={}, only_crds=True
    )


def kuberay_release(*, version: str, namespace: str, ray_pods: int) -> HelmRelease:
    """Release of operator `version`, with memory for `ray_pods` Ray pods; it watches all namespaces."""
    # The chart's note: 500 Ray pods need about 500 MB; half a GiB is what the empty operator may take. In steps: one
    # worker more does not restart the operator.
    memory = f"{512 + _MEMORY_STEP_MIB * math.ceil(ray_pods / _MEMORY_STEP_MIB)}Mi"
    return HelmRelease(
        chart=CHART,
        version=version,
        name="kuberay-operator",
        namespace=namespace,
        values={
            # The source tree's chart runs `nightly`: the tag is never left to the chart.
            "image": {"repository": "quay.io/kuberay/operator", "tag": f"v{version}"},
            "resources": {"requests": {"cpu": "100m", "memory": memory}, "limits": {"cpu": "1", "memory": memory}},
            "nodeSelector": on_system_nodes(),
            # Without it a RayCluster has no conditions, and its `state: ready` is never taken back.
            "featureGates": [{"name": "RayClusterStatusConditions", "enabled": True}],
            # The chart's own securityContext keeps to Pod Security's `restricted` with this.
            "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    )
