"""Keep what moto's services hold, and bring it back: creating it again by API calls takes ten times as long."""

import pickle

from moto.backends import get_backend
from moto.core.base_backend import BackendDict


def is_empty() -> bool:
    """Return whether no service of moto holds anything."""
    return not BackendDict._instances


def saved() -> bytes:
    """Return what all services hold, in all accounts and regions."""
    # One pickle, because objects of one service refer to those of another.
    return pickle.dumps({each.service_name: dict(each) for each in BackendDict._instances}, pickle.HIGHEST_PROTOCOL)


def restore(state: bytes) -> None:
    """Give empty services a copy of what `saved` returned in this process."""
    for service, accounts in pickle.loads(state).items():  # noqa: S301 - of this process
        backends = get_backend(service)
        backends.update(accounts)
        BackendDict._instances.append(backends)
