"""The FSx for Lustre CSI driver: its Helm values. Its service account is the project's (service_account.py)."""

from collections.abc import Mapping

from k8s_charts.helm.release import HelmRelease, on_system_nodes
from k8s_charts.shared.names import FSX_CSI_SERVICE_ACCOUNT, SYSTEM_NAMESPACE


def fsx_csi_release(*, region: str, file_system_tags: Mapping[str, str] | None = None) -> HelmRelease:
    """Release of the driver in the AWS region `region`; the tags are put on each file system that it makes."""
    return HelmRelease(
        chart="aws-fsx-csi-driver",
        name="aws-fsx-csi-driver",
        namespace=SYSTEM_NAMESPACE,
        values={
            "controller": {
                # HyperPod's pods cannot ask the instance metadata service for the region.
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
