"""Explain a framework that is not installed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needing(package: str, extra: str) -> Iterator[None]:
    """Import a package in this block.

    Raises:
        ModuleNotFoundError: the package or one of its own is missing; the message names the extra that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{package} is not installed: {error}. Fix: pip install 'ray-resume[{extra}]'", name=error.name
        ) from error
