"""What this package knows of moto's internals, to spare its time: the methods of its services, and their state."""

import inspect
import pickle
from typing import Any

from moto.backends import get_backend
from moto.core import responses
from moto.core.base_backend import BackendDict


class _MethodNames:
    """The names of a class's methods, as a container that looks each one up."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and inspect.isfunction(getattr(self._of, name, None))


def resolve_methods() -> None:
    """Let moto look up the method of an API call by its name.

    It lists and sorts all methods of a service for each call, which takes a quarter of a call of EC2.
    """
    responses.method_names_from_class = _MethodNames


def is_empty() -> bool:
    """Return whether no service of moto holds anything."""
    return not BackendDict._instances


def saved() -> bytes:
    """Return what all services hold, in all accounts and regions.

    Bringing it back takes a tenth of the time of the API calls that create it.
    """
    # One pickle, because objects of one service refer to those of another.
    return pickle.dumps({each.service_name: dict(each) for each in BackendDict._instances}, pickle.HIGHEST_PROTOCOL)


def restore(state: bytes) -> None:
    """Give empty services a copy of what `saved` returned in this process."""
    for service, accounts in pickle.loads(state).items():  # noqa: S301 - of this process
        backends = get_backend(service)
        backends.update(accounts)
        BackendDict._instances.append(backends)
