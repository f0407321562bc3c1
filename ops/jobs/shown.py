"""A run's output, put together from the logs of its supervisors: each character once, and a message for each gap.

A supervisor prints the whole output of an attempt, with marks: lines that say at which position of the output the next
line begins. So it does not matter from where a log is read: the node keeps only the end of a long log, a read that was
interrupted begins again, and another supervisor of the same attempt prints everything again.
"""

import json
from typing import Any, Final, Protocol

from rich.console import Console
from rich.markup import escape

from k8s_charts.shared.names import JOB_SUPERVISOR, OUTPUT_MARK, RAYJOB_SUBMITTER

_CONTROLLERS: Final = {JOB_SUPERVISOR, RAYJOB_SUBMITTER}
_ASIDE: Final = {"time", "message", "controller"}
# A supervisor's first messages: a log that begins with one is complete.
_FIRST: Final = ("waiting for the lease", "began")
# Its messages after the last line of an attempt, and after the last attempt.
_ENDED: Final = "ended"
_OVER: Final = "over"


class OutputSource(Protocol):
    """Where output is that no log of a supervisor has."""

    def between(self, job: str, /, begin: int, end: int) -> str:
        """Return what is between two positions of an attempt's output; empty if that is lost."""

    def before(self, job: str, /) -> list[str]:
        """Return the attempts of the run before this one, oldest first."""

    def rest(self, job: str, /, begin: int) -> tuple[list[str], str]:
        """Return the output of an attempt that has ended, from a position on; between its pieces some is missing.

        Also return the reason if its end is missing, too.
        """


class Shown:
    """What was shown so far."""

    def __init__(self, console: Console, source: OutputSource) -> None:
        self._console = console
        self._source = source
        self._positions: dict[str, int] = {}
        """How many characters of each attempt's output are known: shown, or reported as missing."""
        self._ended: set[str] = set()
        """The attempts whose output was shown to its end, as far as it exists."""
        self._told: set[str] = set()
        self.is_over = False
        """Whether a supervisor has said that the run is over."""
        self._begin = ""
        self._job = ""
        """The attempt to which the log's next line belongs; empty while that is unknown."""
        self._at = 0
        self._unplaced: list[str] = []

    def read(self, log: str) -> None:
        """Begin to read a log, which is called `log`, from the first line that its node still has."""
        self.end()
        self._begin, self._job, self._at = log, "", 0

    def line(self, line: str) -> None:
        """Show a line of the log, unless it was shown before."""
        entry = _parsed(line)
        if entry is None:
            self._output(line)
        elif entry["message"] == OUTPUT_MARK:
            self._place(str(entry["job"]), int(entry["position"]))
        else:
            if entry["message"] in _FIRST:
                # Supervisors of earlier versions print no marks: all of their log is one output.
                self._job, self._at = self._begin, 0
            self._aside(line, entry)

    def end(self) -> None:
        """Show lines whose position is still unknown."""
        if self._unplaced:
            self._job, self._at = self._rotated, 0
            if self._rotated not in self._positions:
                reason = {"reason": "the node has removed the log's beginning"}
                self.aside("output before this may be missing", reason)
            self._again()

    def finish(self, job: str) -> None:
        """Show what was not shown of an attempt that has ended."""
        if job in self._ended:
            return
        self._ended.add(job)
        pieces, reason = self._source.rest(job, self._positions.get(job, 0))
        for number, piece in enumerate(pieces):
            if number:
                self.aside("output is missing", {"job": job, "reason": "the storage keeps the beginning and the end"})
            self._write(piece)
            self._positions[job] = self._positions.get(job, 0) + len(piece)
        if reason:
            self.aside("output may be missing", {"job": job, "reason": reason})

    @property
    def _rotated(self) -> str:
        """The name of output of a log without its beginning, as long as its position is unknown."""
        return f"{self._begin}, rotated"

    def aside(self, message: str, fields: dict[str, Any]) -> None:
        """Show a message that is no output of the job."""
        details = ", ".join(f"{key} {value}" if key != "reason" else str(value) for key, value in fields.items())
        text = f"── {message}{': ' + details if details else ''}"
        self._console.print(f"[cyan]{escape(text)}[/]", soft_wrap=True, highlight=False)

    def _aside(self, line: str, entry: dict[str, Any]) -> None:
        if entry["message"] == _ENDED:
            self._ended.add(str(entry.get("submission_id", "")))
        self.is_over = self.is_over or entry["message"] == _OVER
        if line not in self._told:
            self._told.add(line)
            self.aside(entry["message"], {key: value for key, value in entry.items() if key not in _ASIDE})

    def _output(self, line: str) -> None:
        if not self._job:
            self._unplaced.append(line)
            return
        known, end = self._positions.get(self._job, 0), self._at + len(line) + 1
        if end > known:
            self._write(line[max(0, known - self._at) :] + "\n")
            self._positions[self._job] = end
        self._at = end

    def _place(self, job: str, position: int) -> None:
        """Let the next line begin at a position of an attempt's output."""
        begin = position - sum(len(line) + 1 for line in self._unplaced)
        if begin < 0:
            # They are the end of an earlier attempt.
            self.end()
            self._positions.pop(self._rotated, None)
            begin = position
        self._move(job, begin)
        # Those that `end` has shown.
        shown = begin + self._positions.pop(self._rotated, 0)
        self._positions[job] = max(self._positions.get(job, 0), shown)
        self._again()
        self._move(job, position)

    def _move(self, job: str, position: int) -> None:
        if job not in self._positions:
            for earlier in self._source.before(job):
                self.finish(earlier)
        known = self._positions.get(job, 0)
        if position > known:
            if text := self._source.between(job, known, position):
                self._write(text)
            else:
                gap = {"characters": position - known, "reason": "the node has removed it from the log"}
                self.aside("output is missing", gap)
            self._positions[job] = position
        self._job, self._at = job, position

    def _write(self, text: str) -> None:
        # Not with `print`, which would remove control characters.
        self._console.file.write(text)
        self._console.file.flush()

    def _again(self) -> None:
        lines, self._unplaced = self._unplaced, []
        for line in lines:
            self._output(line)


def _parsed(line: str) -> dict[str, Any] | None:
    """Return a supervisor's or submitter's message in a line as a dict; None if the line is the job's."""
    if not line.startswith("{"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and entry.get("controller") in _CONTROLLERS and "message" in entry else None
