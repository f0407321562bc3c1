"""Read the state of the account's services as plain values by path, to compare two moments."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from moto.core.base_backend import BackendDict

from embedded_account.context import Account

_MODULES: Final = ("moto.", "embedded_account.services.", "embedded_account.hyperpod.")
_OF_AWS: Final = "arn:aws:iam::aws:"
"""The policies that AWS itself provides: what is in them stays, but roles have them or not."""
_ELSEWHERE: Final = {"account", "_account", "_clients", "aws_managed_policies", "backend", "_url_module", "world"}


def account_state(account: Account) -> dict[str, Any]:
    """Return the state of all services by path, without times."""
    from embedded_account.hyperpod import simulator_of
    from embedded_account.services.eks.service import service_of

    kept: dict[str, Any] = {each.service_name: dict(each) for each in list(BackendDict._instances)}
    kept["eks service"] = service_of(account)
    kept["hyperpod"] = simulator_of(account).world.clusters
    return dict(plain(kept, "", set()))


def plain(value: Any, place: str, above: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the plain values within `value` with their paths; `above` are the ids of what contains it."""
    if value is None or isinstance(value, str | int | float | bool | bytes):
        yield place, value
        return
    if isinstance(value, datetime) or id(value) in above:
        return
    deeper = above | {id(value)}
    if isinstance(value, Mapping):
        for key, each in list(value.items()):
            if str(key).startswith(_OF_AWS):
                yield f"{place}/{key}", key
                continue
            yield from plain(each, f"{place}/{key}", deeper)
    elif isinstance(value, list | tuple | set | frozenset):
        for index, each in enumerate(sorted(value, key=str) if isinstance(value, set | frozenset) else value):
            yield from plain(each, f"{place}/{index}", deeper)
    elif type(value).__module__.startswith(_MODULES):
        for name, each in list(vars(value).items()):
            if name not in _ELSEWHERE:
                yield from plain(each, f"{place}/{name}", deeper)
