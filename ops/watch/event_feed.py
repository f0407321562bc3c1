"""Read an environment's events once, or again and again."""

import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn, Self

from config import EksEnvironment
from ops.clients import CallerAccount, Clients, connect
from ops.sign_of_life import SILENCE
from ops.watch.events import EventList, read_events
from ops.watch.logs import Say

_INTERVAL_SECONDS: Final = 10.0
# An event may become readable a while after its time.
_LATE: Final = timedelta(minutes=5)


class Feed:
    """The events of an environment since a number of seconds ago. Kubernetes is connected to when it first answers."""

    def __init__(
        self, environment: EksEnvironment, account: CallerAccount, seconds: float, interval: float = _INTERVAL_SECONDS
    ) -> None:
        self._environment = environment
        self._account = account
        self._since = datetime.now(UTC) - timedelta(seconds=seconds)
        self._interval = interval
        self._stack = ExitStack()
        self._clients: Clients | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self) -> EventList:
        """Return the events, and what cannot be read."""
        return read_events(self._environment, self._account, self._connected, self._since)

    @SILENCE.wanted()
    def follow(self, say: Say, warn: Say) -> NoReturn:
        """Print each event once, and each obstacle once while it lasts; only an exception ends it."""
        shown: set[str] = set()
        obstacles: dict[str, str] = {}
        while True:
            found = self.read()
            for name, reason in found.unseen.items():
                if obstacles.get(name) != reason:
                    warn(f"{name} cannot be read: {reason}")
            obstacles = found.unseen
            for event in found.events:
                if event.key not in shown:
                    say(str(event))
            shown |= {event.key for event in found.events}
            if found.events:
                self._since = max(self._since, found.events[-1].time - _LATE)
            time.sleep(self._interval)

    def _connected(self) -> Clients:
        if self._clients is None:
            self._clients = self._stack.enter_context(connect(self._environment, self._account))
        return self._clients
