"""Where the images of an environment's pods come from."""

from collections.abc import Mapping
from typing import Final

from config import Environment

STAND_INS: Final = "rehearsal.invalid/stand-in/"
"""Of what EKS and HyperPod bring themselves: on AWS it comes from AWS's own registries in the region."""


def from_elsewhere(environment: Environment, images: Mapping[str, str]) -> dict[str, str]:
    """Return, of a pod's name by image, those that come neither from `image_registry` nor from ECR in the region."""
    regional = f".dkr.ecr.{environment.region}.amazonaws.com"
    own = (f"{environment.image_registry}/", STAND_INS)
    return {
        image: pod
        for image, pod in images.items()
        if not image.startswith(own) and not image.split("/")[0].endswith(regional)
    }
