"""Find images of an environment's pods that come from unexpected registries."""

from collections.abc import Mapping
from typing import Final

from config import EksEnvironment

STAND_INS: Final = "rehearsal.invalid/stand-in/"
"""The registry of the stand-ins for EKS's and HyperPod's own images, which are in AWS's regional registries on AWS."""


def registry(environment: EksEnvironment) -> str | None:
    """Return the registry that holds the copies; None if the environment pulls from the publishers."""
    return environment.image_registry


def from_elsewhere(environment: EksEnvironment, images: Mapping[str, str]) -> dict[str, str]:
    """Return image → pod for the images that come neither from `image_registry` nor from ECR in the region."""
    regional = f".dkr.ecr.{environment.region}.amazonaws.com"
    own = (f"{environment.image_registry}/", STAND_INS)
    return {
        image: pod
        for image, pod in images.items()
        if not image.startswith(own) and not image.split("/")[0].endswith(regional)
    }
