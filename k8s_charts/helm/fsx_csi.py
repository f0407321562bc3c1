"""The Helm values of the FSx for Lustre CSI driver. The project creates its service account (service_account.py)."""

from collections.abc import Mapping

from k8s_charts.helm.release import HelmRelease, on_system_nodes
from k8s_charts.shared.names import FSX_CSI_SERVICE_ACCOUNT, SYSTEM_NAMESPACE


def fsx_csi_release(*, region: str, file_system_tags: Mapping[str, str] | None = None) -> HelmRelease:
    """Return the driver's release for an AWS region; the driver adds the tags to each file system that it creates."""
    return HelmRelease(
        chart="aws-fsx-csi-driver",
        name="aws-fsx-csi-driver",
        namespace=SYSTEM_NAMESPACE,
        values={
            "controller": {
                # Pods on HyperPod cannot read the region from the instance metadata service.
                "region": region,
                "nodeSelector": on_system_nodes(),
                # The chart's default tolerates every NoExecute taint for five minutes.
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
                "resources": _resources(),
                "serviceAccount": {"create": False, "name": FSX_CSI_SERVICE_ACCOUNT},
                **({"extraTags": dict(file_system_tags)} if file_system_tags else {}),
            },
            "node": {
                "region": region,
                # Volumes must stay mounted on a node that is being checked, drained or replaced.
                "tolerateAllTaints": True,
                "resources": _resources(),
            },
        },
    )


def _resources() -> dict[str, dict[str, str]]:
    return {"requests": {"cpu": "10m", "memory": "40Mi"}, "limits": {"memory": "256Mi"}}
