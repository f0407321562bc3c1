"""Read the volumes of an instance group (`InstanceStorageConfigs`)."""

from collections.abc import Mapping
from typing import Any, Final

from ops.review.hyperpod.values import has_intrinsic

_EBS: Final = "EbsVolumeConfig"
_KEY: Final = "VolumeKmsKeyId"


def readable(volumes: Any) -> bool:
    """Return whether all of the volumes is known before the deployment."""
    if volumes is None:
        return True
    listed = isinstance(volumes, list) and all(isinstance(each, Mapping) for each in volumes)
    return listed and not has_intrinsic(volumes) and all(isinstance(each.get(_EBS, {}), Mapping) for each in volumes)


def without_keys(volumes: Any) -> list[Any] | None:
    """Return the volumes without their keys, or None; a root volume is listed for its key only."""
    own = [_without_key(each) for each in volumes or []]
    return [each for each in own if each.get(_EBS) not in ({"RootVolume": True}, {"RootVolume": "true"})] or None


def _without_key(volume: Mapping[str, Any]) -> Mapping[str, Any]:
    if _EBS not in volume:
        return volume
    return {**volume, _EBS: {name: value for name, value in volume[_EBS].items() if name != _KEY}}
