"""Customer managed KMS keys of the nodes' volumes (AWS docs: smcluster-cmk)."""

from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.hyperpod.model import Specification
from embedded_account.hyperpod.permissions import checks as permissions
from embedded_account.hyperpod.world import World


def of(group: Specification) -> dict[str, str]:
    """Return the customer managed KMS keys of a group's volumes, by volume: root and secondary."""
    volumes = [each.get("EbsVolumeConfig", {}) for each in group.get("InstanceStorageConfigs", [])]
    return {
        "root" if volume.get("RootVolume", False) else "secondary": volume["VolumeKmsKeyId"]
        for volume in volumes
        if "VolumeKmsKeyId" in volume
    }


def check(world: World, group: Specification) -> None:
    """Raise ValidationFailedError unless the volumes' KMS keys can be used, and the role may grant their use."""
    name, keys = group["InstanceGroupName"], list(dict.fromkeys(of(group).values()))
    for key in keys:
        if why := world.surroundings.unusable_key(key):
            raise ValidationFailedError(f"Instance group {name}: the KMS key {key} {why}.")
    role = world.surroundings.role(group["ExecutionRole"])
    if role and (refused := permissions.denied(role.grants, permissions.key_needs(world.region, keys))):
        raise ValidationFailedError(f"Instance group {name}: the execution role may not call {refused[0].action}.")
