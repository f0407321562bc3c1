"""Compare an environment's images and charts with their copies."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from config import EksEnvironment
from k8s_charts.helm.images import public_images, pushed_copy
from ops.mirror import artefacts
from ops.mirror.crane import Crane
from ops.mirror.errors import MirrorError, MovedTagError, NoAccessError

# Few enough that no registry refuses them as too many.
_AT_ONCE: Final = 4


class ArtifactKind(StrEnum):
    """What is copied."""

    IMAGE = "image"
    CHART = "chart"


class CopyState(StrEnum):
    """What a copy is before the command, or after it."""

    MISSING = "missing"
    PRESENT = "present"
    COPIED = "copied"


@dataclass(frozen=True)
class RequiredCopy:
    """A copy that must be there: `source` is an image, or a chart's OCI layout on this machine."""

    kind: ArtifactKind
    source: str
    target: str
    digest: str = ""
    """The source's digest; "" if it must be asked for."""


@dataclass(frozen=True)
class Copy:
    """A copy as it was found: the digest is that of the source."""

    wanted: RequiredCopy
    digest: str
    state: CopyState


def images(environment: EksEnvironment, registry: str) -> list[RequiredCopy]:
    """Return the public images that the environment can pull from the registry."""
    found = (image.image for image in public_images(environment) if image.copied)
    return [RequiredCopy(ArtifactKind.IMAGE, image, pushed_copy(image, registry)) for image in found]


def charts(registry: str, scratch: Path) -> Iterator[RequiredCopy]:
    """Yield the locked charts as OCI layouts below `scratch`. Raises ChartError if one is not in the cache."""
    for number, chart in enumerate(artefacts.charts()):
        layout = scratch / str(number)
        digest = artefacts.write(chart, layout)
        yield RequiredCopy(ArtifactKind.CHART, str(layout), artefacts.reference(chart, registry), digest)


def compare(crane: Crane, wanted: Sequence[RequiredCopy]) -> list[Copy]:
    """Return what each copy is. Raises MirrorError if one is broken or differs, or if a registry cannot be read."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda each: _compared(crane, each), wanted))


def at(image: str, digest: str) -> str:
    """Return the image by its digest instead of its tag."""
    parent, _, name = image.rpartition("/")
    return f"{parent}/{name.split('@')[0].split(':')[0]}@{digest}"


def require_copy(crane: Crane, target: str, digest: str) -> None:
    """Raise MirrorError unless the registry holds this digest, with all that it consists of."""
    found = crane.digest(target)
    remove = f"Fix: delete {target} in its registry, then rerun"
    if found != digest:
        raise MirrorError(f"{target}: the copy is {found or 'missing'}. Allowed: {digest}. {remove}")
    if lack := crane.broken(at(target, digest)):
        raise MirrorError(f"{target}: the copy is broken: {lack}. {remove}")


def _compared(crane: Crane, wanted: RequiredCopy) -> Copy:
    digest = wanted.digest or crane.digest(wanted.source)
    if digest is None:
        raise NoAccessError(
            f"{wanted.source}: the registry has no such image. Fix: check whether its publisher moved it"
        )
    found = crane.digest(wanted.target)
    if found is None:
        return Copy(wanted, digest, CopyState.MISSING)
    if found != digest:
        of = wanted.source if wanted.kind is ArtifactKind.IMAGE else "the locked chart"
        raise MovedTagError(
            f"{wanted.target}: the copy is {found}, but {of} is {digest}: one of the tags has moved, and nothing is "
            "overwritten. Fix: find out who moved it; to take the source's, delete the copy in its registry and rerun"
        )
    require_copy(crane, wanted.target, digest)
    return Copy(wanted, digest, CopyState.PRESENT)
