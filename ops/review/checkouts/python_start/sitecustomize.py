"""Let a synthesis run the sources that people review, and read no file that the review does not compare.

Bytecode may replace its source unnoticed (PEP 552). So Python ignores it, and writes none, except for the installed
packages. A file below a folder of NOT_READ cannot be opened: only its content would differ, and the environment would
count as unchanged.
"""

import _frozen_importlib_external as machinery
import os
import site
import sys
from typing import Any

_LIBRARIES = [os.__file__.rpartition(os.sep)[0], *site.getsitepackages()]
_INSTALLED = tuple(f"{os.path.realpath(path)}{os.sep}" for path in _LIBRARIES)
_cache_of = machinery.cache_from_source


def _cache_of_installed(path: str, *arguments: Any, **options: Any) -> str:
    if not os.path.realpath(path).startswith(_INSTALLED):
        # The import then compiles the source, and keeps nothing.
        raise NotImplementedError
    return _cache_of(path, *arguments, **options)


def _refuse_to_open(checkout: str, names: frozenset[str]) -> None:
    top = f"{os.path.realpath(checkout)}{os.sep}"

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        name = path.removeprefix(top)
        if name != path and name.partition(os.sep)[0] in names:
            raise RuntimeError(
                f"{name}: the synthesis reads it, but a review counts it as no input. "
                "Fix: move it to a folder that a synthesis reads, such as config/"
            )

    sys.addaudithook(refuse)


machinery.cache_from_source = _cache_of_installed  # type: ignore[assignment]  # its overloads are of older Pythons
# `ops.review.checkouts.cdk` sets them; the names are separated as in PATH.
_refuse_to_open(os.environ["REVIEWED_CHECKOUT"], frozenset(os.environ["REVIEW_NOT_READ"].split(os.pathsep)))
