"""The KubeRay operator: its Helm values. Its CRDs come with the chart (they exceed what a manifest can carry)."""

from k8s_charts.helm import HelmRelease, on_system_nodes


def kuberay_release(*, version: str, namespace: str, ray_pods: int) -> HelmRelease:
    """Release of operator `version`, with memory for `ray_pods` Ray pods; it watches all namespaces."""
    # The chart's note: 500 Ray pods need about 500 MB; half a GiB is what the empty operator may take.
    memory = f"{512 + ray_pods}Mi"
    return HelmRelease(
        chart="kuberay-operator",
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
