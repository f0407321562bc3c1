"""Write what a reviewer who accepts a change adds to the approvals file."""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from ops.review.model import Change, Danger

_PLACEHOLDERS: Final = ("reason: WHY", 'expires: "YYYY-MM-DD"')


def entries(change: Change, dangers: Iterable[Danger]) -> Iterator[str]:
    """Yield the lines of an entry for each danger."""
    for danger in dangers:
        # A JSON text is a YAML text, whatever characters it has.
        stack = [f"stack: {json.dumps(change.stack)}"] if change.stack else []
        resource, digest = f"resource: {json.dumps(change.resource)}", f"digest: {json.dumps(change.digest)}"
        first, *others = [*stack, resource, f"change: {danger.value}", digest, *_PLACEHOLDERS]
        yield f"  - {first}"
        yield from (f"    {line}" for line in others)


def file(environment: str) -> str:
    """Return the path of an environment's approvals."""
    return f"environments/approvals/{environment}.yaml"
