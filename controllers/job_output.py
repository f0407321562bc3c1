"""A job's output, shown as it arrives and searched for progress."""

import sys
from collections import deque
from http.client import HTTPException
from typing import Final

from controllers.job_decision import FIGURES, PROGRESS, RESUMED
from controllers.ray_jobs_api import HeadUnavailableError, RayJobs
from controllers.websocket import WebSocket

_LAST_LINES: Final = 200
_LONGEST_LINE: Final = 10_000


class JobOutput:
    """The output of one job. The head may be unavailable at times; on each connection Ray sends all output again."""

    def __init__(self, submission_id: str) -> None:
        self._submission_id = submission_id
        self._socket: WebSocket | None = None
        self._shown = 0
        self._skip = 0
        self._line = ""
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self.progress = -1
        """The highest progress that the job has printed; -1 before the first."""
        self.resumed = False
        """Whether the job has printed that it resumed from a checkpoint."""
        self.figures: dict[str, float] = {}
        """The newest figures that the job has printed (`job_decision.FIGURES`); empty before the first."""

    def follow(self, ray: RayJobs, seconds: float) -> bool:
        """Show the output of the next `seconds`; return False once it is complete or Ray does not answer."""
        try:
            if self._socket is None:
                self._socket, self._skip = ray.tail(self._submission_id), self._shown
            messages = self._socket.read(seconds)
        except (HeadUnavailableError, OSError, HTTPException):
            messages = None
        for message in messages or ():
            self._take(message)
        if messages is None:
            self.close()
        return messages is not None

    def close(self) -> None:
        """Close the connection; the next `follow` connects again and shows nothing twice."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def end(self) -> list[str]:
        """Close the connection, end an unfinished line, and return the last lines."""
        self.close()
        if self._line:
            sys.stdout.write("\n")
            self._end_line()
        sys.stdout.flush()
        return list(self._last)

    def _take(self, text: str) -> None:
        known = min(self._skip, len(text))
        self._skip -= known
        text = text[known:]
        self._shown += len(text)
        sys.stdout.write(text)
        sys.stdout.flush()
        *whole, rest = text.split("\n")
        for part in whole:
            self._line += part
            self._end_line()
        self._line = (self._line + rest)[-_LONGEST_LINE:]

    def _end_line(self) -> None:
        for found in PROGRESS.finditer(self._line):
            self.progress = max(self.progress, int(found[1]))
        self.resumed = self.resumed or RESUMED.search(self._line) is not None
        if figures := FIGURES.search(self._line):
            self.figures = {name: float(value) for name, value in figures.groupdict().items() if value}
        self._last.append(self._line[-_LONGEST_LINE:])
        self._line = ""
