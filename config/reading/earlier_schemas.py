"""The keys of earlier schemas, for `ops migrate` and for the message about an unknown key.

A file carries no version: its keys show its schema. One function for each change of the schema finds what the change
concerns; add one with every key that is renamed, moved or removed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from config.findings import Place


@dataclass(frozen=True)
class Removal:
    """A key of an earlier schema: its place in a document, the first version without it, and what replaces it."""

    place: Place
    version: str
    reason: str


def removals(document: Any) -> list[Removal]:
    """Return the keys of earlier schemas that a document has, in the order of the schema's changes."""
    return [each for step in STEPS for each in step(document)]


def removal_at(place: Place, document: Any) -> Removal | None:
    """Return the key of an earlier schema at the place, None if there is none."""
    return next((each for each in removals(document) if each.place == place), None)


def without_orchestrator(document: Any) -> Iterator[Removal]:
    """Yield the key `orchestrator`, which could only be `eks`."""
    if isinstance(document, dict) and document.get("orchestrator") == "eks":
        yield Removal(("orchestrator",), "0.2.0", "every cluster is orchestrated by EKS")


def without_root_volume(document: Any) -> Iterator[Removal]:
    """Yield the key `root_volume_gib` of instance groups."""
    for n, group in enumerate(_list_at(document, "hyperpod", "instance_groups")):
        if isinstance(group, dict) and "root_volume_gib" in group:
            place = ("hyperpod", "instance_groups", n, "root_volume_gib")
            yield Removal(place, "0.2.0", "HyperPod sizes the root volume itself; volume_gib is the secondary volume")


def without_refused_features(document: Any) -> Iterator[Removal]:
    """Yield the keys of `aws_ray` that could only be false."""
    features = document.get("aws_ray") if isinstance(document, dict) else None
    for key in ("hang_detection", "metrics"):
        if isinstance(features, dict) and key in features:
            yield Removal(("aws_ray", key), "0.2.0", "it needs no key with KubeRay 1.6.0 or newer")


STEPS: Final[tuple[Callable[[Any], Iterator[Removal]], ...]] = (
    *(without_orchestrator, without_root_volume, without_refused_features),
)


def _list_at(document: Any, *keys: str) -> list[Any]:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, list) else []
