"""The objects of both sides: what differs, where each object was and is, and what becomes of the live one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from ops.review.assembly import Assembly, Pair, ResourceChange, resource_changes
from ops.review.kubernetes.charts import RenderedRelease, helm_program, release
from ops.review.kubernetes.objects import MANIFEST, RELEASE, ApplyingResource, Key, KubernetesObject, manifests, sources
from ops.review.model import Address

TYPES: Final = frozenset({MANIFEST, RELEASE})
_ACCOUNT: Final = re.compile(r"aws://(\d{12})/")


@dataclass(frozen=True)
class RenderedObjects:
    """One side: objects and releases of those resources that differ, and of all manifests."""

    objects: Mapping[Key, KubernetesObject]
    """Objects of resources that differ."""
    all: Mapping[Key, KubernetesObject]
    """Those, and the objects of the other manifests."""
    releases: Mapping[Address, RenderedRelease] = field(default_factory=dict)
    """Releases that differ."""
    sources: Mapping[Address, ApplyingResource] = field(default_factory=dict)
    """All manifests and releases."""
    twice: frozenset[Key] = frozenset()
    """Objects that stand at two places: which text is the live one depends on the order of the deployment."""


@dataclass(frozen=True)
class ObjectComparison:
    """Both sides of one environment."""

    before: RenderedObjects
    after: RenderedObjects
    new: bool
    """The environment is new: nothing is compared."""
    accounts: frozenset[str] = frozenset()
    """The AWS accounts in which the base's stacks are; the head's, if the environment is new."""

    def pairs(self) -> Iterator[tuple[KubernetesObject | None, KubernetesObject | None]]:
        """Yield each object of a resource that differs, as it was and as it is."""
        for key in dict.fromkeys([*self.before.objects, *self.after.objects]):
            yield self.before.objects.get(key), self.after.objects.get(key)

    def replaced_jobs(self) -> Mapping[Key, KubernetesObject]:
        """Map each new Job, by its key, to the Job that it replaces under another name."""
        new = [each for key, each in self.after.objects.items() if key not in self.before.all and each.kind == "Job"]
        return {each.key: old for each in new if (old := self.predecessor(each))}

    def predecessor(self, created: KubernetesObject) -> KubernetesObject | None:
        """Return the object that `created` replaces under another name: the only removed one of its kind and place."""
        kind, place = created.key[:3], created.source.address
        gone = [each for key, each in self.before.objects.items() if key not in self.after.all]
        new = [each for key, each in self.after.objects.items() if key not in self.before.all]
        olds = [each for each in gone if each.key[:3] == kind and each.source.address == place]
        news = [each for each in new if each.key[:3] == kind and each.source.address == place]
        return olds[0] if len(olds) == len(news) == 1 else None


@lru_cache(maxsize=32)
def sides(pair: Pair) -> ObjectComparison:
    """Read both sides of an environment.

    Raises ReviewError if a manifest, values or a chart of the project's own cannot be read.
    """
    changed = [change for change in resource_changes(pair) if change.type in TYPES or _was_ours(change)]
    addresses = {(change.stack, change.logical_id) for change in changed}
    present = [each for each in (pair.base, pair.head) if each]
    found = []
    helm = helm_program(present if _renders(changed) else [])
    for assembly in (pair.base, pair.head):
        own = {source.address: source for source in sources(assembly)}
        releases = {
            address: release(source, assembly, helm)
            for address, source in own.items()
            if assembly and source.is_release and address in addresses
        }
        found.append(_side(own, {**manifests(assembly), **_rendered(releases)}, releases, addresses))
    return ObjectComparison(found[0], found[1], pair.base is None, _accounts(pair.base or pair.head))


def _accounts(assembly: Assembly) -> frozenset[str]:
    places = (_ACCOUNT.match(str(stack.settings.get("environment"))) for stack in assembly.stacks.values())
    return frozenset(each[1] for each in places if each)


def _renders(changed: Iterable[ResourceChange]) -> bool:
    return any(change.type == RELEASE for change in changed)


def _was_ours(change: ResourceChange) -> bool:
    return bool(change.before and change.before.get("Type") in TYPES)


def _rendered(releases: Mapping[Address, RenderedRelease]) -> dict[Address, list[KubernetesObject]]:
    return {
        address: [each for each in release.objects or () if not _is_hook(each)] for address, release in releases.items()
    }


def _side(
    own: Mapping[Address, ApplyingResource],
    made: Mapping[Address, Iterable[KubernetesObject]],
    releases: Mapping[Address, RenderedRelease],
    changed: set[Address],
) -> RenderedObjects:
    objects: dict[Key, KubernetesObject] = {}
    everything: dict[Key, KubernetesObject] = {}
    twice: set[Key] = set()
    for address in own:
        for each in made.get(address, ()):
            if each.key in everything and everything[each.key].body != each.body:
                twice.add(each.key)
            everything.setdefault(each.key, each)
            if address in changed:
                objects.setdefault(each.key, each)
    return RenderedObjects(objects, everything, releases, own, frozenset(twice))


def _is_hook(each: KubernetesObject) -> bool:
    """Return whether Helm only runs the object at an event, such as a test."""
    hook = str((each.body["metadata"].get("annotations") or {}).get("helm.sh/hook", ""))
    return bool(hook) and all(event.strip().startswith("test") for event in hook.split(","))
