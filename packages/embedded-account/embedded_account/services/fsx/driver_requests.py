"""Convert the parameters of a storage class to the FSx CSI driver's CreateFileSystem request.

The conversion follows aws-fsx-csi-driver 1.9.0 (pkg/driver/controller.go, pkg/cloud/cloud.go, pkg/util/util.go), with
one difference: it refuses parameters that the driver does not know; the driver ignores them.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from embedded_account.services.iam.pod_role import PodRoleError
from embedded_account.tags import tag_list

VOLUME_TAG: Final = "CSIVolumeName"

_LUSTRE: Final = {
    "deploymentType": "DeploymentType",
    "perUnitStorageThroughput": "PerUnitStorageThroughput",
    "dataCompressionType": "DataCompressionType",
    "driveCacheType": "DriveCacheType",
    "weeklyMaintenanceStartTime": "WeeklyMaintenanceStartTime",
    "automaticBackupRetentionDays": "AutomaticBackupRetentionDays",
    "efaEnabled": "EfaEnabled",
}
_REQUEST: Final = {
    "fileSystemTypeVersion": "FileSystemTypeVersion",
    "storageType": "StorageType",
    "kmsKeyId": "KmsKeyId",
}
_KNOWN: Final = {*_LUSTRE, *_REQUEST, "subnetId", "securityGroupIds", "extraTags", "metadataConfigurationMode"}
_NUMBERS: Final = ("perUnitStorageThroughput", "automaticBackupRetentionDays")
_LARGEST_SMALL_GIB: Final = 2400


def create_request(
    parameters: Mapping[str, str], *, volume: str, capacity_gib: int, driver_tags: Mapping[str, str]
) -> dict[str, Any]:
    """Return the CreateFileSystem request for a volume. Raises PodRoleError.

    `driver_tags` are the tags of the driver's `--extra-tags`.
    """
    if unknown := parameters.keys() - _KNOWN:
        raise PodRoleError(
            f"storage class parameter {', '.join(sorted(unknown))} is invalid: it is not simulated. "
            f"Allowed: {', '.join(sorted(_KNOWN))}"
        )
    if not parameters.get("subnetId"):
        raise PodRoleError("SubnetId is required")
    values = {name: _value(name, text) for name, text in parameters.items()}
    lustre: dict[str, Any] = {field: values[name] for name, field in _LUSTRE.items() if values.get(name)}
    if mode := values.get("metadataConfigurationMode"):
        lustre["MetadataConfiguration"] = {"Mode": mode}
    own_tags = tags_of(parameters.get("extraTags", ""))
    tags = {VOLUME_TAG: volume, **driver_tags, **own_tags}
    return {
        "ClientRequestToken": volume,
        "FileSystemType": "LUSTRE",
        "StorageCapacity": rounded_up(capacity_gib),
        "SubnetIds": [parameters["subnetId"]],
        "SecurityGroupIds": parameters.get("securityGroupIds", "").split(","),
        "LustreConfiguration": lustre,
        "Tags": tag_list(tags),
        **{field: values[name] for name, field in _REQUEST.items() if values.get(name)},
    }


def rounded_up(capacity_gib: int) -> int:
    """Return the GiB that the driver requests (SSD storage, not SCRATCH_1 and not PERSISTENT_1 on HDD)."""
    step = 1200 if capacity_gib < _LARGEST_SMALL_GIB else 2400
    return math.ceil(capacity_gib / step) * step


def tags_of(text: str) -> dict[str, str]:
    """Return the tags of a text in the driver's form, `key=value,key=value`. Raises PodRoleError."""
    pairs = [part.split("=") for part in text.split(",")] if text else []
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        raise PodRoleError(f"extra tags must be key=value, not {'='.join(wrong[0])}")
    return dict(pairs)


def gib(quantity: str) -> int:
    """Return the GiB of a quantity such as `1200Gi`.

    Raises PodRoleError for a unit other than Gi and Ti; the project uses no other.
    """
    found = re.fullmatch(r"(\d+)(Gi|Ti)", quantity)
    if not found:
        raise PodRoleError(f"size {quantity} is invalid. Allowed: whole numbers of Gi or Ti")
    return int(found[1]) * (1024 if found[2] == "Ti" else 1)


def _value(name: str, text: str) -> str | int | bool:
    if name in _NUMBERS:
        if not text.isdigit():
            raise PodRoleError(f"{name} must be a number")
        return int(text)
    if name == "efaEnabled":
        if text.lower() not in ("true", "false"):
            raise PodRoleError(f"{name} must be a bool")
        return text.lower() == "true"
    return text
