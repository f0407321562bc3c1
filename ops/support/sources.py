"""Connect to what a bundle is read from."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from typing import Self, TypeVar

from config import EksEnvironment
from ops.clients import CallerAccount, Clients, connect
from ops.errors import UnreachableError

_Connected = TypeVar("_Connected")


class Sources:
    """The environment's APIs, connected to when a part first needs them. One failed connection is not repeated."""

    def __init__(self, environment: EksEnvironment, seconds: float) -> None:
        self.environment = environment
        self.seconds = seconds
        self._stack = ExitStack()
        self._obstacle: UnreachableError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def account(self) -> CallerAccount:
        """The account. Raises UnreachableError."""
        return self._once(lambda: CallerAccount(self.environment))

    @cached_property
    def clients(self) -> Clients:
        """The APIs, with Kubernetes. Raises UnreachableError."""
        return self._once(lambda: self._stack.enter_context(connect(self.environment, self.account)))

    def _once(self, make: Callable[[], _Connected]) -> _Connected:
        if self._obstacle:
            raise self._obstacle
        try:
            return make()
        except UnreachableError as error:
            self._obstacle = error
            raise
