"""Let moto find the method of an API call by its name: it lists and sorts all methods of a service for each call."""

import inspect
from typing import Any

from moto.core import responses


class _MethodNames:
    """The names of a class's methods, as a container that looks each one up."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and inspect.isfunction(getattr(self._of, name, None))


def install() -> None:
    """Replace moto's list, which takes a quarter of a call of EC2."""
    responses.method_names_from_class = _MethodNames
