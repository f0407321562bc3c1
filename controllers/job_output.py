"""A job's output, shown as it arrives and searched for progress."""

import sys
import time
from collections import deque
from collections.abc import Callable
from http.client import HTTPException
from typing import Final

from controllers.job_decision import BEGAN, FIGURES, PROGRESS, RESUMED, STARTS, WAITS, WORKERS
from controllers.ray_jobs_api import HeadUnavailableError, RayJobs
from controllers.websocket import WebSocket

OUTPUT_MARK: Final = "output"
"""Message of lines with the position of the job's output at which the next line begins."""

_LAST_LINES: Final = 200
_LONGEST_LINE_CHARACTERS: Final = 10_000
_LONGEST_REASON_CHARACTERS: Final = 300
_LONGEST_HELD_CHARACTERS: Final = 1_000_000
# A node keeps the last 10 MiB of a log by default: what it keeps always has marks.
_MARK_EVERY_CHARACTERS: Final = 65_536
_MARK_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 2.0
_LAST_OUTPUT_SECONDS: Final = 15.0


class JobOutput:
    """The output of one job. The head may be unavailable at times; on each connection Ray sends all output again.

    Only whole lines are shown, so that the supervisor's own lines stand between lines of the job. `mark` is called
    before the first line and then now and then, with the number of characters that the lines so far have.
    """

    def __init__(self, submission_id: str, mark: Callable[[int], None]) -> None:
        self._submission_id = submission_id
        self._mark = mark
        self._socket: WebSocket | None = None
        self._taken = 0
        self._skip = 0
        self._shown = 0
        self._marked, self._marked_at = -1, float("-inf")
        self._held: list[str] = []
        self._line = ""
        """The end of a line that was too long to hold."""
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self.progress = -1
        """The highest progress that the job has printed; -1 before the first."""
        self.resumed = False
        """Whether the job has printed that it resumed from a checkpoint."""
        self.waits = ""
        """What the job's workers wait for; empty if they wait for nothing, as far as the job prints it."""
        self._starts, self._trained = "", False
        self._workers = ""
        self.began = False
        """Whether the job has printed that its workers got their resources, or began."""
        self.figures: dict[str, float] = {}
        """The newest figures that the job has printed (`job_decision.FIGURES`); empty before the first."""

    @property
    def printed(self) -> bool:
        """Return whether any output has arrived."""
        return self._taken > 0

    @property
    def stage(self) -> str:
        """Return how far a running job is: its start, or with how many workers it runs; empty if it prints neither."""
        return (self._starts or self._workers) if self.printed else "no output yet"

    @property
    def connected(self) -> bool:
        """Return whether Ray sends the output now."""
        return self._socket is not None

    def follow(self, ray: RayJobs, seconds: float) -> bool:
        """Show the output of the next `seconds`; return False once it is complete or Ray does not answer."""
        try:
            if self._socket is None:
                self._socket, self._skip = ray.tail(self._submission_id), self._taken
            messages = self._socket.read(seconds)
        except (HeadUnavailableError, OSError, HTTPException):
            messages = None
        for message in messages or ():
            self._take(message)
        if not messages:
            self._mark_if_due()
        if messages is None:
            self.close()
        return messages is not None

    def show_rest(self, ray: RayJobs, between: Callable[[], object] = lambda: None) -> None:
        """Show the rest of the output of a job that has ended; call `between` every few seconds.

        A connection that was open when the job ended may miss what the job printed in its last second: until it was
        mended, Ray asked for the job's status after it had read the file and slept (ray 2.42.1:
        dashboard/modules/job/job_manager.py, `tail_job_logs`). A new connection sends all.
        """
        for _ in range(1 + self.connected):
            until = time.monotonic() + _LAST_OUTPUT_SECONDS
            while time.monotonic() < until and self.follow(ray, _POLL_SECONDS):
                between()
            self.close()

    def close(self) -> None:
        """Close the connection; the next `follow` connects again and shows nothing twice."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def end(self) -> list[str]:
        """Close the connection, end an unfinished line, and return the last lines."""
        self.close()
        if self._held or self._line:
            self._end_line()
        sys.stdout.flush()
        return list(self._last)

    def _take(self, text: str) -> None:
        known = min(self._skip, len(text))
        self._skip -= known
        text = text[known:]
        self._taken += len(text)
        *whole, rest = text.split("\n")
        for part in whole:
            self._held.append(part)
            self._end_line()
        if rest:
            self._held.append(rest)
        if sum(map(len, self._held)) > _LONGEST_HELD_CHARACTERS:
            self._write("".join(self._held))
            self._line, self._held = self._held[-1][-_LONGEST_LINE_CHARACTERS:], []
        sys.stdout.flush()

    def _end_line(self) -> None:
        line, self._held = "".join(self._held), []
        if not self._line:
            self._mark_if_due()
        self._write(f"{line}\n")
        line, self._line = (self._line + line)[-_LONGEST_LINE_CHARACTERS:], ""
        for found in PROGRESS.finditer(line):
            self.progress = max(self.progress, int(found[1]))
        self.resumed = self.resumed or RESUMED.search(line) is not None
        if waits := WAITS.search(line):
            self.waits = waits[1].strip()[:_LONGEST_REASON_CHARACTERS]
        elif began := BEGAN.search(line):
            self.waits, self.began = "", True
            if began["trains"]:
                self._starts, self._trained = "", True
            elif self._trained:
                self._starts = "its workers start again"
        elif starts := STARTS.search(line):
            self._starts = starts[0]
        if workers := WORKERS.search(line):
            self._workers = workers[0]
        if figures := FIGURES.search(line):
            self.figures = {name: float(value) for name, value in figures.groupdict().items() if value}
        self._last.append(line)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        self._shown += len(text)

    def _mark_if_due(self) -> None:
        now = time.monotonic()
        old = now - self._marked_at >= _MARK_SECONDS
        if (
            self._shown > self._marked
            and not self._line
            and (old or self._shown - self._marked >= _MARK_EVERY_CHARACTERS)
        ):
            self._mark(self._shown)
            self._marked, self._marked_at = self._shown, now
