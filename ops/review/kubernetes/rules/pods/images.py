"""Review where the images of pods come from, and whether their names are fixed."""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.pods.reach import containers
from ops.review.model import Danger

_PRIVATE: Final = re.compile(r"(\d+|<[^>]*>)\.dkr\.ecr\.([\w-]+|<[^>]*>)\.(amazonaws\.com(\.cn)?|<[^>]*>)")
# Everybody may publish there: who owns an image is the first part of its path.
_PUBLIC: Final = frozenset({"docker.io", "ghcr.io", "quay.io", "public.ecr.aws", "gcr.io", "registry.gitlab.com"})
_MOVING: Final = frozenset({"", "latest", "nightly", "master", "main", "stable", "edge"})


def review_images(old: Any, new: Any, context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield images of a pod's specification that come from elsewhere than the environment's, or have no fixed name."""
    before = {str(each["name"]): str(each.get("image", "")) for each in containers(old)}
    known = {registry(image) for image in before.values()} or _used(context)
    for container in containers(new):
        image = str(container.get("image", ""))
        was = before.get(str(container["name"]))
        if was == image:
            continue
        if unpinned(image) and not (was and unpinned(was)):
            yield endangers(
                Danger.LOWER_PROTECTION, f"image {image} has no fixed tag", "Its content can change unseen."
            )
        if known and foreign(image, known, context.accounts):
            yield endangers(Danger.RUNS_CODE, f"image from another registry: {registry(image)}")


def unpinned(image: str) -> bool:
    """Return whether an image's name can stand for other content tomorrow."""
    name, at_sign, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return not at_sign and tag in _MOVING


def registry(image: str) -> str:
    """Return the registry of an image with, in a public one, its owner; Docker's if it names none."""
    host, _, path = image.partition("/")
    if not path or not ("." in host or ":" in host or host == "localhost"):
        host, path = "docker.io", image if path else f"library/{image}"
    return f"{host}/{path.partition('/')[0]}" if host in _PUBLIC else host


def foreign(image: str, known: Collection[str], accounts: Collection[str]) -> bool:
    """Return whether an image comes from a registry that is neither known nor ECR of one of the accounts."""
    place = registry(image)
    if place in known:
        return False
    private = _PRIVATE.fullmatch(place)
    # An account that only the deployment knows is its own.
    return private is None or not (private[1].startswith("<") or private[1] in accounts)


def _used(context: RuleContext) -> set[str]:
    """Return the registries from which the environment's pods came before."""
    return {
        registry(str(container.get("image", "")))
        for each in context.before.values()
        for spec in _specs(each.body.get("spec"))
        for container in containers(spec)
    }


def _specs(value: Any) -> Iterator[Any]:
    """Yield the specifications of pods inside an object's."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for each in value.values():
            yield from _specs(each)
    elif isinstance(value, list):
        for each in value:
            yield from _specs(each)
