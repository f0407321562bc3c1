"""Whose a cluster is: two tags, written in the same call that creates it, name the stack and the resource in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from .request import Request

STACK_TAG = "hyperpod-cluster:stack-id"
RESOURCE_TAG = "hyperpod-cluster:logical-id"


@dataclass(frozen=True)
class Owner:
    """A resource of a CloudFormation stack. The stack's id differs between two deployments of one stack name."""

    stack_id: str
    logical_id: str

    @classmethod
    def of(cls, request: Request) -> Self:
        """The resource that the request is about."""
        return cls(request.stack_id, request.logical_id)

    @classmethod
    def named_by(cls, tags: Mapping[str, str]) -> Self | None:
        """The owner that a cluster's tags name; None when no stack made it with this resource."""
        if STACK_TAG not in tags:
            return None
        return cls(tags[STACK_TAG], tags.get(RESOURCE_TAG, ""))

    @property
    def tags(self) -> dict[str, str]:
        """The tags that name this owner."""
        return {STACK_TAG: self.stack_id, RESOURCE_TAG: self.logical_id}
