"""The walkthrough's storage class: the CSI driver creates a file system for each claim of this class."""

from dataclasses import dataclass

from cdk8s_plus_27 import k8s
from constructs import Construct

from config.facts import versions
from config.model import Fsx
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.names import FSX_CSI_DRIVER, FSX_STORAGE_CLASS


@dataclass(frozen=True)
class FileSystemClass:
    """The settings and the network place of the driver's file systems."""

    settings: Fsx
    subnet_id: str
    security_group_id: str
    kms_key: str | None = None


class FileSystemClassChart(ProjectChart):
    """The StorageClass. The API server refuses changes of its parameters and reclaim policy."""

    def __init__(self, scope: Construct, id: str, *, file_systems: FileSystemClass) -> None:
        super().__init__(scope, id)
        k8s.KubeStorageClass(
            self,
            "class",
            metadata=k8s.ObjectMeta(name=FSX_STORAGE_CLASS),
            provisioner=FSX_CSI_DRIVER,
            parameters=_parameters(file_systems),
            # Locks that hold across nodes, as in the walkthrough.
            mount_options=["flock"],
            reclaim_policy=file_systems.settings.reclaim_policy or "Delete",
            volume_binding_mode="Immediate",
            allow_volume_expansion=True,
        )


def _parameters(file_systems: FileSystemClass) -> dict[str, str]:
    """Return the driver's parameters (aws-fsx-csi-driver, pkg/driver/controller.go; its default type is SCRATCH_1)."""
    settings = file_systems.settings
    parameters = {
        "subnetId": file_systems.subnet_id,
        "securityGroupIds": file_systems.security_group_id,
        "deploymentType": "PERSISTENT_2",
        "storageType": "SSD",
        "fileSystemTypeVersion": versions.LUSTRE,
        "perUnitStorageThroughput": str(settings.throughput_mbps_per_tib),
        "dataCompressionType": settings.compression,
        # Backups would remain after the deletion of the claim and its file system.
        "automaticBackupRetentionDays": "0",
    }
    if file_systems.kms_key:
        parameters["kmsKeyId"] = file_systems.kms_key
    if settings.efa:
        parameters |= {"efaEnabled": "true", "metadataConfigurationMode": "AUTOMATIC"}
    return parameters
