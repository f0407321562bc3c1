"""Sleepers whose clock a test sets: each runs in its own thread until it waits, and the test lets it continue."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol
from unittest.mock import patch

from controllers import kubernetes_api, lease, sleeper
from controllers.kubernetes_api import KubernetesApi
from controllers.sleeper import GroupMetrics, Sleeper
from tests.support.waiting import PATIENCE_SECONDS

Now = Callable[[], float]

_RECONNECTS_SECONDS: Final = 0.3


class Killed(BaseException):
    """The process of a sleeper ends here: no code of it may catch this."""


class Time:
    """The module `time` as the sleeper sees it."""

    def __init__(self, now: Now) -> None:
        self.time = self.monotonic = now


class Turns(threading.Event):
    """The `ending` of a sleeper: each wait returns when the test has let the time pass."""

    def __init__(self, now: Now) -> None:
        super().__init__()
        self._now = now
        self._go, self._waits = threading.Semaphore(0), threading.Semaphore(0)
        self.killed = False
        self.due = float("-inf")

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.due = self._now() + (timeout or 0.0)
            self.pause()
        return self.is_set()

    def pause(self) -> None:
        """Wait until the test gives the thread its turn."""
        self._waits.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def is_over(self) -> None:
        """Let the test continue: the thread ends."""
        self._waits.release()

    def give(self) -> None:
        """Let the thread run until it waits again, or ends."""
        self._go.release()
        self.await_pause()

    def await_pause(self) -> None:
        """Wait until the thread waits, or ends."""
        assert self._waits.acquire(timeout=PATIENCE_SECONDS), "the sleeper neither waits nor ends"


class Observer(Protocol):
    """Sees each request of a sleeper."""

    def requested(self, method: str, path: str, body: Any, *, after: bool) -> None:
        """Take a request to the API server, before it is sent and after it was answered."""


class Replica:
    """A sleeper in its own thread, as `controllers.sleeper.main` runs it."""

    def __init__(self, holder: str, made: Callable[[GroupMetrics], Sleeper], now: Now) -> None:
        self.holder = holder
        self.turns = Turns(now)
        self.metrics = GroupMetrics()
        self.sleeper = made(self.metrics)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=holder, daemon=True)
        self.thread.start()
        self.turns.await_pause()

    def _run(self) -> None:
        try:
            self.turns.pause()
            self.sleeper.start()
            self.sleeper.run(self.turns)
            self.sleeper.stop()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error
        finally:
            self.turns.is_over()

    @property
    def holds(self) -> bool:
        """Return whether this one acts."""
        return self.sleeper._lease is not None

    @property
    def alive(self) -> bool:
        """Return whether nobody has ended it."""
        return self.thread.is_alive() and not self.turns.killed

    def look(self) -> None:
        """Let it look once, and act."""
        self.turns.give()
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """End it as Kubernetes does with SIGTERM."""
        self.turns.set()
        self.look()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive(), f"{self.holder} does not end"

    def kill(self) -> None:
        """End it at once: it releases nothing."""
        self.turns.killed = True
        if self.thread.is_alive():
            with suppress(Killed):
                self.turns.give()
            self.thread.join(PATIENCE_SECONDS)
        self.sleeper._users.stop()


@contextmanager
def virtual(now: Now, observer: Observer, requests: Counter[tuple[str, str, str]]) -> Iterator[None]:
    """Set the sleepers' clock, and count requests by thread, method and collection.

    Watches stay in real time, as the API server does; a watch whose server was away returns soon.
    """
    send = KubernetesApi._send

    def sent(
        self: KubernetesApi, method: str, path: str, query: Mapping[str, str], body: Any = None, **options: float
    ) -> Any:
        thread = threading.current_thread().name
        requests[thread, "WATCH" if "watch" in query else method, collection(path)] += 1
        observer.requested(method, path, body, after=False)
        answer = send(self, method, path, query, body, **options)
        observer.requested(method, path, body, after=True)
        return answer

    fake: Any = Time(now)
    with (
        patch.object(KubernetesApi, "_send", sent),
        patch.object(sleeper, "time", fake),
        patch.object(lease, "time", fake),
        patch.object(kubernetes_api, "_LONGEST_PAUSE_SECONDS", _RECONNECTS_SECONDS),
    ):
        yield


def collection(path: str) -> str:
    """Return the last plural of a path."""
    words = path.split("/")
    named = ("pods", "nodes", "jobs", "rayclusters", "leases", "deployments", "events", "selfsubjectaccessreviews")
    return next((word for word in reversed(words) if word in named), path)
