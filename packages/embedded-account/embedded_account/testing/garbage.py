"""Collect garbage rarely: a pytest plugin of its own.

Imported modules are hundreds of thousands of objects that live until the end. Python would search all of them for
garbage again and again: an eighth of the CPU time of tests that synthesise.
"""

import gc
from typing import Final

_YOUNG_OBJECTS: Final = 200_000
"""New objects until the next collection; Python's own value is 700."""

gc.disable()


def pytest_collection_finish() -> None:
    """Leave out what the imports have made, and collect the tests' own garbage rarely."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
    gc.enable()
