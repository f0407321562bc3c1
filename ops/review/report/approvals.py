"""Write what a reviewer who accepts a change adds to the approvals file."""

from collections.abc import Iterable, Iterator
from typing import Final

from ops.review.model import Danger

_PLACEHOLDERS: Final = ("reason: WHY", 'expires: "YYYY-MM-DD"')


def entries(resource: str, dangers: Iterable[Danger]) -> Iterator[str]:
    """Yield the lines of an entry for each danger."""
    for danger in dangers:
        yield f"  - resource: {' '.join(resource.split())}"
        yield f"    change: {danger.value}"
        yield from (f"    {line}" for line in _PLACEHOLDERS)


def file(environment: str) -> str:
    """Return the path of an environment's approvals."""
    return f"environments/approvals/{environment}.yaml"
