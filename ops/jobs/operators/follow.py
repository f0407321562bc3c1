"""Stream the output of a PyTorchJob: the log of its first worker, across its restarts and replacements."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import urllib3
from kubernetes.client import ApiException
from rich.console import Console
from rich.markup import escape

from ops.errors import UnreachableError, in_plain_words
from ops.jobs.run import ExistingRun
from ops.sign_of_life import SILENCE

POLL_SECONDS: Final = 1.0
_AWAY_SECONDS: Final = 60.0
"""How long a follower waits for an API server that answered before. One that has just started, as after an upgrade of
Kubernetes, refuses for a moment what it will allow once it has read all roles."""

T = TypeVar("T")


class RunQueries(Protocol):
    """What is asked about runs: `ops.jobs.runs.Runs`."""

    def get(self, name: str, /) -> ExistingRun: ...
    def first_worker(self, name: str, /) -> Any | None: ...
    def log(self, pod: str, /) -> Iterable[bytes]: ...


def follow_first_worker(runs: RunQueries, name: str, console: Console) -> int:
    """Show the output of a PyTorchJob until it ends; return its exit code. Raises RunError and UnreachableError."""
    shown: dict[tuple[str, int], int] = {}
    reported, again = "", False
    while True:
        run, pod = asked(lambda: (runs.get(name), runs.first_worker(name)), again=again)
        again = True
        reason = str(run.state.get("reason", ""))
        if reason and reason != reported:
            _aside(console, f"{run.phase}: {reason}")
            reported = reason
        if pod is not None and (start := _start(pod)):
            if shown and start not in shown:
                _aside(console, f"{pod.metadata.name} starts again")
            show = partial(_show, runs, pod.metadata.name, console, skip=shown.get(start, 0))
            shown[start] = asked(show, again=bool(shown))
        if run.finished:
            return int(run.state["exit_code"])
        time.sleep(POLL_SECONDS)


def asked(ask: Callable[[], T], *, again: bool) -> T:
    """Return an answer of the Kubernetes API; with `again`, ask for a minute. Raises UnreachableError."""
    deadline = time.monotonic() + (_AWAY_SECONDS if again else 0.0)
    while True:
        try:
            with in_plain_words("access.submitters"):
                return ask()
        except UnreachableError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(POLL_SECONDS)


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a text that arrives in pieces."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def _start(pod: Any) -> tuple[str, int] | None:
    """Return the pod's id and its container's restarts, which tell starts apart; None before the first one."""
    [status] = pod.status.container_statuses or [None]
    if status is None or (status.state.waiting and not status.restart_count):
        return None
    return pod.metadata.uid, int(status.restart_count)


@SILENCE.wanted()
def _show(runs: RunQueries, pod: str, console: Console, *, skip: int) -> int:
    """Show a log from line `skip` on, until it or the connection ends; return how many lines are known."""
    number = 0
    try:
        for number, line in enumerate(lines_of(runs.log(pod)), 1):
            if number > skip:
                # Not with `print`, which would remove control characters.
                console.file.write(f"{line}\n")
                console.file.flush()
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        # The container has not started or is gone, or the API server closed the connection: the next poll shows which.
        if isinstance(error, ApiException) and error.status in (401, 403):
            with in_plain_words("access.submitters"):
                raise
    return max(number, skip)


def _aside(console: Console, text: str) -> None:
    """Show a message that is no output of the job."""
    console.print(f"[cyan]── {escape(text)}[/]", soft_wrap=True, highlight=False)
