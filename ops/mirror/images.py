"""List the images that an environment pulls from public registries, and the addresses of their copies."""

from rich.table import Table

from config import EksEnvironment
from k8s_charts.helm.images import PublicImage, copy_of, public_images, pushed_copy
from ops.mirror.errors import MirrorError


def table(environment: EksEnvironment) -> Table:
    """Return a table of public images: who uses each, and where it is pulled from."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("image", "used by", "pulled from"):
        drawn.add_column(column, overflow="fold")
    for image in public_images(environment):
        drawn.add_row(image.image, image.used_by, _pulled_from(image, environment.image_registry))
    return drawn


def data(environment: EksEnvironment) -> list[dict[str, str | None]]:
    """Return the images as data for programs; `copy` is None for an image that is pulled from its publisher."""
    registry = environment.image_registry
    return [
        {
            "image": image.image,
            "used_by": image.used_by,
            "copy": copy_of(image.image, registry) if registry and image.copied else None,
        }
        for image in public_images(environment)
    ]


def _pulled_from(image: PublicImage, registry: str | None) -> str:
    if registry is None:
        return "its publisher"
    return copy_of(image.image, registry) if image.copied else "its publisher: the chart's values cannot set it"


def copies(environment: EksEnvironment) -> list[tuple[str, str]]:
    """Return source and target of each image to copy. Raises MirrorError if the environment has no registry."""
    registry = environment.image_registry
    if registry is None:
        raise MirrorError(
            f"{environment.name} has no image_registry: it pulls each image from the registry that publishes it. "
            "Fix: set image_registry"
        )
    found = public_images(environment)
    return [(image.image, pushed_copy(image.image, registry)) for image in found if image.copied]
