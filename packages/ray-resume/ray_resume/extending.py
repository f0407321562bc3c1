"""Let a run that is done train on, when a setting that may grow has grown."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from ray_resume.storage import RunStorage, record

DONE: Final = "DONE.json"
_EARLIER_ENDS: Final = "earlier_ends.json"
_RECORD: Final = ("trainer.pkl", "tuner.pkl", "experiment_state-")
"""How the names of Ray Train's own record begin."""


def grows(before: Any, now: Any) -> bool:
    """Return whether a setting became a larger number."""
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (before, now))
    return numbers and now > before


def reopen(storage: RunStorage) -> None:
    """Forget that the run is done, and Ray Train's record of it: Ray Train never trains a finished record again.

    The caller writes the new settings afterwards, so that a program that is killed here is repeated.
    """
    for name in storage.names(""):
        if name.startswith(_RECORD):
            storage.delete(name)
    end = record(storage, DONE)
    if end is not None:
        earlier = _earlier(storage)
        if end not in earlier:
            storage.put(_EARLIER_ENDS, (json.dumps([*earlier, end], indent=2) + "\n").encode())
        storage.delete(DONE)


def ends(storage: RunStorage) -> list[float]:
    """Return the times at which the run was done, in seconds since 1970."""
    done = record(storage, DONE)
    found = [*_earlier(storage), *([done] if done else [])]
    return [datetime.fromisoformat(end["finished"]).timestamp() for end in found]


def _earlier(storage: RunStorage) -> list[dict[str, Any]]:
    content = storage.read(_EARLIER_ENDS)
    found: list[dict[str, Any]] = json.loads(content) if content else []
    return found
