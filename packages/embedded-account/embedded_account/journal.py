"""Keep the account's clock and its journal: what it did, and when."""

import json
import threading
import time
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

JournalKind = str
"""One of "cfn", "lambda", "eks", "hyperpod", "eni", "api" (calls that a simulator answered), "event" (EventBridge),
"iam" (decisions about permissions), "policies" (those that the decisions were made with).
"""


class Clock:
    """A clock in real time that shortens simulated waits.

    `scale` is simulated seconds per real second: at 60, a simulated minute of HyperPod's provisioning takes one second.
    Only `sleep` is scaled. `now` is the wall clock, because clients compare it with their own clocks.
    """

    def __init__(self, scale: float = 1.0) -> None:
        if scale <= 0:
            raise ValueError(f"clock scale {scale} is invalid. Allowed: a number above 0")
        self.scale = scale

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def after(self, simulated: timedelta) -> datetime:
        """Return the time at which this much simulated time will have passed."""
        return self.now() + simulated / self.scale

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of simulated time."""
        time.sleep(seconds / self.scale)


class Journal:
    """An append-only record of what the account did, kept in memory and in a file with one JSON object per line.

    Every entry has `seq` (from 1), `time` (seconds since the epoch) and `kind`. The caller of `record` chooses the
    other fields.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []
        self._once: set[Hashable] = set()

    def record(self, kind: JournalKind, **fields: Any) -> dict[str, Any]:
        """Append one entry and return it. Values without a JSON form are written as text."""
        with self._lock:
            entry = {
                "seq": len(self._entries) + 1,
                "time": self._clock.now().timestamp(),
                "kind": kind,
                **fields,
            }
            self._entries.append(entry)
            self._file.write(json.dumps(entry, default=str) + "\n")
        return entry

    def record_once(self, kind: JournalKind, key: Hashable, **fields: Any) -> None:
        """Append the entry, unless one with the same kind and key was appended this way."""
        with self._lock:
            known = (kind, key) in self._once
            self._once.add((kind, key))
        if not known:
            self.record(kind, **fields)

    def entries(self, since: int = 0, kind: JournalKind | None = None) -> list[dict[str, Any]]:
        """Return the entries whose `seq` is above `since`; with `kind`, only the entries of that kind."""
        with self._lock:
            later = self._entries[since:]
        return [entry for entry in later if kind is None or entry["kind"] == kind]

    def close(self) -> None:
        """Close the file; the entries stay readable in memory."""
        with self._lock:
            self._file.close()
