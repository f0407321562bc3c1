"""The tags by which a stack recognises its cluster, and the groups that a rollback may remove.

Two tags name the stack and the resource in it; the call that creates the cluster also writes them. A third tag names
the groups that updates added since the stack was stable: a rollback may remove only these without confirmation. If the
third tag is lost, the groups stay.
"""

import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from .request import Request

STACK_TAG = "hyperpod-cluster:stack-id"
RESOURCE_TAG = "hyperpod-cluster:logical-id"
ADDED_TAG = "hyperpod-cluster:added-groups"

# AddTags, Tag.Value.
_LONGEST_VALUE = 256


@dataclass(frozen=True)
class Owner:
    """A resource of a CloudFormation stack. The stack's id differs between two deployments of one stack name."""

    stack_id: str
    logical_id: str

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return the resource that the request is about."""
        return cls(request.stack_id, request.logical_id)

    @classmethod
    def named_by(cls, tags: Mapping[str, str]) -> Self | None:
        """Return the owner that a cluster's tags name; None if no stack created the cluster with this resource."""
        if STACK_TAG not in tags:
            return None
        return cls(tags[STACK_TAG], tags.get(RESOURCE_TAG, ""))

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags that name this owner."""
        return {STACK_TAG: self.stack_id, RESOURCE_TAG: self.logical_id}


def note(request: Request, added: Collection[str]) -> dict[str, str]:
    """Return the tag for the groups that a request adds. Names that exceed a tag's length are left out whole."""
    return {ADDED_TAG: textwrap.shorten(" ".join([request.id, *sorted(added)]), _LONGEST_VALUE, placeholder="")}


def added_groups(tags: Mapping[str, str]) -> set[str]:
    """Return the groups that a rollback may remove, according to the third tag."""
    return set(_noted(tags)[1:])


def noted_by(tags: Mapping[str, str]) -> str:
    """Return the id of the request that wrote the third tag; "" without this tag."""
    return next(iter(_noted(tags)), "")


def _noted(tags: Mapping[str, str]) -> list[str]:
    return tags.get(ADDED_TAG, "").split()
