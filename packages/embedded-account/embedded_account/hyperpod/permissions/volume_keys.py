"""Customer managed KMS keys of the nodes' volumes (AWS docs: smcluster-cmk)."""

from collections.abc import Mapping
from typing import Any


def of(group: Mapping[str, Any]) -> dict[str, str]:
    """Return the customer managed KMS keys of a group's volumes, by volume: root and secondary."""
    volumes = [each.get("EbsVolumeConfig", {}) for each in group.get("InstanceStorageConfigs", [])]
    return {
        "root" if volume.get("RootVolume", False) else "secondary": volume["VolumeKmsKeyId"]
        for volume in volumes
        if "VolumeKmsKeyId" in volume
    }
