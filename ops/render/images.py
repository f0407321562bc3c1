"""List the images that an environment pulls from public registries, and the addresses of their copies."""

from collections.abc import Iterator

from rich.table import Table

from config import EksEnvironment
from k8s_charts.helm.images import PublicImage, copy_of, public_images, pushed_copy


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


def copies(environment: EksEnvironment) -> Iterator[tuple[str, str]]:
    """Yield source and target of each image to copy; nothing if the environment has no `image_registry`."""
    if registry := environment.image_registry:
        for image in public_images(environment):
            if image.copied:
                yield image.image, pushed_copy(image.image, registry)
