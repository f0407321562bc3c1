"""The KubeRay operator: its Helm values, and its CRDs as a separate release.

The CRDs are too large for a manifest, and Helm neither upgrades nor removes the CRDs in a chart's `crds/`.
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
    """Return the release of the definitions of RayCluster, RayJob and RayService in KubeRay `version`.

    Its name and namespace are fixed: Helm recognises the definitions as its own by them, and would refuse the
    definitions under others. Uninstalling the release deletes every object of these kinds in the cluster.
    """
    return HelmRelease(
        chart=CHART, version=version, name=CRDS_RELEASE, namespace=CRDS_NAMESPACE, values={}, only_crds=True
    )


def kuberay_release(*, version: str, namespace: str, ray_pods: int) -> HelmRelease:
    """Return the release of operator `version`, with memory for `ray_pods` Ray pods; it watches all namespaces."""
    # The chart's note: 500 Ray pods need about 500 MB. The operator alone may take half a GiB. The memory grows in
    # steps, so that one more worker does not restart the operator.
    memory = f"{512 + _MEMORY_STEP_MIB * math.ceil(ray_pods / _MEMORY_STEP_MIB)}Mi"
    return HelmRelease(
        chart=CHART,
        version=version,
        name="kuberay-operator",
        namespace=namespace,
        values={
            # The chart in the source tree runs `nightly`, so the tag is always set here.
            "image": {"repository": "quay.io/kuberay/operator", "tag": f"v{version}"},
            "resources": {"requests": {"cpu": "100m", "memory": memory}, "limits": {"cpu": "1", "memory": memory}},
            "nodeSelector": on_system_nodes(),
            # Without this gate a RayCluster has no conditions, and its `state: ready` is never withdrawn.
            "featureGates": [{"name": "RayClusterStatusConditions", "enabled": True}],
            # Together with this, the chart's own securityContext meets Pod Security's `restricted` level.
            "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    )
