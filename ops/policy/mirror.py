"""What copies images: the repositories of image_registry."""

from collections.abc import Iterator

from ops.policy.arns import EVERYTHING, Arns
from ops.policy.statement import Statement, actions

_COPY_IMAGES = (
    "BatchCheckLayerAvailability BatchGetImage CompleteLayerUpload CreateRepository DescribeRepositories "
    "GetDownloadUrlForLayer InitiateLayerUpload PutImage TagResource UploadLayerPart"
)


def copy_images(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to copy public images and charts into the account's own registry."""
    if registry := arns.environment.image_registry:
        below = "".join(f"{part}/" for part in registry.split("/")[1:])
        yield Statement("LogInToRegistry", actions("ecr", "GetAuthorizationToken"), EVERYTHING)
        yield Statement("CopyImages", actions("ecr", _COPY_IMAGES), arns.of("ecr", f"repository/{below}*"))
