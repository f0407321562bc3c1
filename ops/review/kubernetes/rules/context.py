"""What a rule knows beside the object that it reviews."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ops.review.assembly import Assembly
from ops.review.consequences import ReviewFinding
from ops.review.kubernetes.deltas import at
from ops.review.kubernetes.objects import Body, Key, KubernetesObject


@dataclass(frozen=True)
class RuleContext:
    """All objects of both sides, by key."""

    environment: str
    before: Mapping[Key, KubernetesObject]
    after: Mapping[Key, KubernetesObject]
    accounts: frozenset[str] = frozenset()
    """The AWS accounts of the environment's stacks."""
    head: Assembly | None = None
    """The new side, for what objects share with other stacks."""

    def of_kind(self, kind: str, *, after: bool) -> list[KubernetesObject]:
        """Return the objects of a kind on one side."""
        return self._by_kind[after].get(kind, [])

    @cached_property
    def _by_kind(self) -> tuple[dict[str, list[KubernetesObject]], dict[str, list[KubernetesObject]]]:
        """Return the objects of both sides by kind."""
        found: tuple[dict[str, list[KubernetesObject]], dict[str, list[KubernetesObject]]] = ({}, {})
        for side, kinds in zip((self.before, self.after), found, strict=True):
            for each in side.values():
                kinds.setdefault(each.kind, []).append(each)
        return found

    def has(self, kind: str, namespace: str, name: str, *, after: bool) -> bool:
        """Return whether a side holds an object."""
        return any((each.namespace, each.name) == (namespace, name) for each in self.of_kind(kind, after=after))

    def only_gone(self, namespace: str, selector: Any) -> bool:
        """Return whether a pod selector can only select pods of a RayCluster or namespace that is removed."""
        return self._only_on(namespace, selector, after=False)

    def only_new(self, namespace: str, selector: Any) -> bool:
        """Return whether a pod selector can only select pods of a RayCluster or namespace that is created."""
        return self._only_on(namespace, selector, after=True)

    def _only_on(self, namespace: str, selector: Any, *, after: bool) -> bool:
        there, elsewhere = after, not after
        if self.has("Namespace", "", namespace, after=there) and not self.has(
            "Namespace", "", namespace, after=elsewhere
        ):
            return True
        cluster = str(at(selector, "matchLabels", "ray.io/cluster") or "")
        return self.has("RayCluster", namespace, cluster, after=there) and not self.has(
            "RayCluster", namespace, cluster, after=elsewhere
        )


Rule = Callable[[Body | None, Body, RuleContext], Iterator[ReviewFinding]]
"""Review an object as it was and as it is. `before` of a created object is the one that it replaces, if any."""
