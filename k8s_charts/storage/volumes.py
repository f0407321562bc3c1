"""The claim that pods mount: bound to a given file system, or to one that the CSI driver creates for it."""

from dataclasses import dataclass
from typing import Final

from cdk8s_plus_27 import k8s
from constructs import Construct

from config.model import Fsx
from k8s_charts.shared.chart import ProjectChart, quantity
from k8s_charts.shared.names import FSX_CSI_DRIVER, FSX_STORAGE_CLASS

# A static claim cannot be resized, so it requests the smallest possible file system. A larger volume still satisfies
# the claim, so the file system may grow.
CLAIM_SIZE: Final = "1200Gi"


@dataclass(frozen=True)
class FileSystemAddress:
    """The id, DNS name and mount name by which a node finds an FSx for Lustre file system."""

    id: str
    dns_name: str
    mount_name: str


def existing_file_system(fsx: Fsx, region: str) -> FileSystemAddress | None:
    """Return the address of the environment's existing file system; None if it has none."""
    existing = fsx.existing
    if existing is None:
        return None
    # FSx user guide, "Mounting from an Amazon EC2 instance": a file system's DNS name.
    return FileSystemAddress(existing.id, f"{existing.id}.fsx.{region}.amazonaws.com", existing.mount_name)


@dataclass(frozen=True)
class FileSystemVolume:
    """A claim and the file system to which it is bound; capacity in GiB."""

    claim: str
    namespace: str
    capacity_gib: int
    file_system: FileSystemAddress


@dataclass(frozen=True)
class ProvisionedClaim:
    """A claim for which the CSI driver creates a file system; capacity in GiB."""

    claim: str
    namespace: str
    capacity_gib: int


class FileSystemVolumeChart(ProjectChart):
    """A PersistentVolume and a PersistentVolumeClaim, bound to each other by name, in one manifest."""

    def __init__(self, scope: Construct, id: str, *, volume: FileSystemVolume) -> None:
        super().__init__(scope, id)
        name = f"{volume.namespace}-{volume.claim}"
        k8s.KubePersistentVolume(
            self,
            "volume",
            metadata=k8s.ObjectMeta(name=name),
            spec=k8s.PersistentVolumeSpec(
                access_modes=["ReadWriteMany"],
                capacity={"storage": quantity(f"{volume.capacity_gib}Gi")},
                # The file system is not the driver's; the driver cannot delete a static volume and refuses `Recycle`.
                persistent_volume_reclaim_policy="Retain",
                storage_class_name="",
                # Locks that hold across nodes, as in the walkthrough.
                mount_options=["flock"],
                claim_ref=k8s.ObjectReference(namespace=volume.namespace, name=volume.claim),
                csi=k8s.CsiPersistentVolumeSource(
                    driver=FSX_CSI_DRIVER,
                    volume_handle=volume.file_system.id,
                    volume_attributes={
                        "dnsname": volume.file_system.dns_name,
                        "mountname": volume.file_system.mount_name,
                    },
                ),
            ),
        )
        k8s.KubePersistentVolumeClaim(
            self,
            "claim",
            metadata=k8s.ObjectMeta(name=volume.claim, namespace=volume.namespace),
            spec=k8s.PersistentVolumeClaimSpec(
                access_modes=["ReadWriteMany"],
                # Empty, not absent: for an absent class the cluster's default class would provision a new volume.
                storage_class_name="",
                volume_name=name,
                resources=k8s.ResourceRequirements(requests={"storage": quantity(CLAIM_SIZE)}),
            ),
        )


class ProvisionedClaimChart(ProjectChart):
    """A PersistentVolumeClaim of the environment's storage class. If it grows, the driver grows the file system."""

    def __init__(self, scope: Construct, id: str, *, claim: ProvisionedClaim) -> None:
        super().__init__(scope, id)
        k8s.KubePersistentVolumeClaim(
            self,
            "claim",
            metadata=k8s.ObjectMeta(name=claim.claim, namespace=claim.namespace),
            spec=k8s.PersistentVolumeClaimSpec(
                access_modes=["ReadWriteMany"],
                storage_class_name=FSX_STORAGE_CLASS,
                resources=k8s.ResourceRequirements(requests={"storage": quantity(f"{claim.capacity_gib}Gi")}),
            ),
        )
