"""Read and write the tags by which a stack knows its cluster.

Two tags name the stack and the resource in it; CreateCluster itself writes them. A third tag names the groups that
updates added since the stack was last stable, with the highest count that these updates gave. A rollback may remove
these groups without confirmation, and no others. It keeps a group that has grown since, and all groups if the tag is
lost.
"""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from .request import CustomResourceRequest

STACK_TAG = "hyperpod-cluster:stack-id"
RESOURCE_TAG = "hyperpod-cluster:logical-id"
ADDED_TAG = "hyperpod-cluster:added-groups"

# AddTags, Tag.Value.
_LONGEST_VALUE = 256


@dataclass(frozen=True)
class OwningResource:
    """A resource of a CloudFormation stack. A stack that is deleted and deployed again gets another stack id."""

    stack_id: str
    logical_id: str

    @classmethod
    def of(cls, request: CustomResourceRequest) -> Self:
        """Return the resource that the request is about."""
        return cls(request.stack_id, request.logical_id)

    @classmethod
    def named_by(cls, tags: Mapping[str, str]) -> Self | None:
        """Return the owner that a cluster's tags name; None if they name none."""
        if STACK_TAG not in tags:
            return None
        return cls(tags[STACK_TAG], tags.get(RESOURCE_TAG, ""))

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags that name this owner."""
        return {STACK_TAG: self.stack_id, RESOURCE_TAG: self.logical_id}


def note(request: CustomResourceRequest, added: Mapping[str, int]) -> dict[str, str]:
    """Return the tag with the groups and counts that a request adds; groups are left out if the tag has no room."""
    groups = [f"{name}={count}" for name, count in sorted(added.items())]
    return {ADDED_TAG: textwrap.shorten(" ".join([request.id, *groups]), _LONGEST_VALUE, placeholder="")}


def added_groups(tags: Mapping[str, str]) -> dict[str, int]:
    """Return the groups that a rollback may remove, with the counts up to which it may, as noted in the tags."""
    return {name: int(count) for name, count in re.findall(r" (\S+)=(\d+)", tags.get(ADDED_TAG, ""))}
