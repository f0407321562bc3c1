"""What all checks share: the environment, clients of its account, and what its stacks already own there."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from config import Environment
from ops import stacks

E_co = TypeVar("E_co", bound=Environment, covariant=True)


@dataclass(frozen=True)
class Deployed:
    """The environment's stacks that exist: the state of each, and the resources that they own."""

    states: Mapping[str, str]
    resources: frozenset[tuple[str, str]]

    def owns(self, kind: str, identifier: str) -> bool:
        """Return whether a stack owns the resource of this CloudFormation type and physical id."""
        return (kind, identifier) in self.resources

    def has(self, *identifiers: str | None) -> bool:
        """Return whether a stack owns a resource with one of these physical ids, of any type."""
        return any(physical in identifiers for _, physical in self.resources)


class Here(Generic[E_co]):
    """The environment and its account. Several threads may use it."""

    def __init__(self, environment: E_co, client: Callable[[str], Any]) -> None:
        """`client` returns a boto3 client of a service; it is never called by two threads at once."""
        self.environment = environment
        self._make = client
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()
        self._looking = threading.Lock()
        self._deployed: Deployed | None = None

    def client(self, service: str) -> Any:
        """Return the client of a service, which threads may share."""
        # A boto3 session is not safe for creating two clients at once.
        with self._making:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Return the items of all pages of a list call."""
        pages = self.client(service).get_paginator(operation).paginate(**arguments)
        return [item for page in pages for item in page[key]]

    @property
    def deployed(self) -> Deployed:
        """What the environment's stacks own (CloudFormation DescribeStacks, ListStackResources); asked once."""
        with self._looking:
            if self._deployed is None:
                self._deployed = self._describe()
            return self._deployed

    def _describe(self) -> Deployed:
        cloudformation = self.client("cloudformation")
        existing = stacks.existing(cloudformation, self.environment)
        owned = {
            (each["ResourceType"], each.get("PhysicalResourceId", ""))
            for stack in existing
            for each in stacks.resources(cloudformation, stack)
        }
        # The first that a deployment begins with comes first.
        return Deployed({stack.name: stack.status for stack in reversed(existing)}, frozenset(owned))
