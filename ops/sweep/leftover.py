"""What is left of an environment, and the view of the account in which it is looked for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from config import EksEnvironment, naming
from ops import stacks


@dataclass(frozen=True)
class Leftover:
    """A resource of the environment that no stack owns."""

    kind: str
    """In a reader's words: `log group`."""
    id: str
    reason: str
    """Who made it, and why it is still there."""
    remove: Callable[[], object]
    holds_data: bool = False
    usd_per_month: float | None = None
    """None: not estimated."""


@dataclass(frozen=True)
class Surface:
    """An environment's account as the finders see it."""

    environment: EksEnvironment
    client: Callable[[str], Any]
    """Returns a boto3 client by the service's name."""

    @cached_property
    def parts(self) -> frozenset[str]:
        """Return the parts of the environment whose stacks exist."""
        return frozenset(stack.part for stack in self._stacks)

    @cached_property
    def owned(self) -> frozenset[str]:
        """Return the physical ids of all resources of the environment's stacks."""
        cloudformation = self.client("cloudformation")
        listed = (each for stack in self._stacks for each in stacks.resources(cloudformation, stack))
        return frozenset(each["PhysicalResourceId"] for each in listed if each.get("PhysicalResourceId"))

    @property
    def eks_cluster(self) -> str:
        """Return the name of the environment's EKS cluster."""
        return naming.eks_cluster(self.environment)

    @cached_property
    def _stacks(self) -> list[stacks.DeployedStack]:
        return stacks.existing(self.client("cloudformation"), self.environment)


Finder = Callable[[Surface], Iterator[Leftover]]
