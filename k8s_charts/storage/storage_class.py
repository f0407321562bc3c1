"""The walkthrough's storage class: the CSI driver makes a file system for each claim of it."""

from dataclasses import dataclass

from cdk8s_plus_27 import k8s
from constructs import Construct

from config.facts import versions
from config.model import Fsx
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.names import FSX_CSI_DRIVER, FSX_STORAGE_CLASS


@dataclass(frozen=True)
class FileSystemClass:
    """What the driver's file systems are like, and where they lie."""

    settings: Fsx
    subnet_id: str
    security_group_id: str


class FileSystemClassChart(ProjectChart):
    """StorageClass. Its parameters and reclaim policy cannot change once it exists: the API server refuses it."""

    def __init__(self, scope: Construct, id: str, *, file_systems: FileSystemClass) -> None:
        super().__init__(scope, id)
        k8s.KubeStorageClass(
            self,
            "class",
            metadata=k8s.ObjectMeta(name=FSX_STORAGE_CLASS),
            provisioner=FSX_CSI_DRIVER,
            parameters=_parameters(file_systems),
            # Locks that hold across nodes, as the walkthrough mounts it.
            mount_options=["flock"],
            reclaim_policy=file_systems.settings.reclaim_policy or "Delete",
            volume_binding_mode="Immediate",
            allow_volume_expansion=True,
        )


def _parameters(file_systems: FileSystemClass) -> dict[str, str]:
    """As the driver spells them (aws-fsx-csi-driver, pkg/driver/controller.go); its own defaults are SCRATCH_1."""
    settings = file_systems.settings
    parameters = {
        "subnetId": file_systems.subnet_id,
        "securityGroupIds": file_systems.security_group_id,
        "deploymentType": "PERSISTENT_2",
        "storageType": "SSD",
        "fileSystemTypeVersion": versions.LUSTRE,
        "perUnitStorageThroughput": str(settings.throughput_mbps_per_tib),
        "dataCompressionType": settings.compression,
        # A file system with backups would leave them behind when its claim goes.
        "automaticBackupRetentionDays": "0",
    }
    if settings.efa:
        parameters |= {"efaEnabled": "true", "metadataConfigurationMode": "AUTOMATIC"}
    return parameters
