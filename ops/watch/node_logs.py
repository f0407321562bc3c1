"""Print HyperPod's logs of its nodes from CloudWatch."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from ops.errors import NoAnswerError, in_plain_words
from ops.sign_of_life import SILENCE
from ops.watch.logs import NoLogsError, Say

# Milliseconds: CloudWatch gets the events of different streams in no common order.
_LATE: Final = 60_000


@dataclass
class NodeLogs:
    """Prints the events of a log group whose streams have one of the prefixes, each with its time and stream.

    `since` is in seconds; None means all. Every method raises the errors of the AWS SDK.
    """

    logs: Any
    group: str
    prefixes: Sequence[str]
    say: Say
    since: float | None = None
    interval: float = 5.0
    _last: int = 0
    _shown: set[str] = field(default_factory=set)

    def print(self) -> None:
        """Print what has been logged. Raises NoLogsError if there is nothing."""
        if not self._print_new():
            streams = " or ".join(f"{prefix}…" for prefix in self.prefixes)
            raise NoLogsError(f"{self.group} has no events in streams {streams}. Fix: wait for a node, or omit --since")

    @SILENCE.wanted()
    def follow(self) -> None:
        """Print what has been logged and what will be; only an exception ends it."""
        while True:
            try:
                with in_plain_words():
                    self._print_new()
            except NoAnswerError as error:
                self.say(f"── no answer, retrying: {error.what}")
            time.sleep(self.interval)

    def _print_new(self) -> int:
        """Print the events that were not printed before; return their number."""
        found = {event["eventId"]: event for prefix in self.prefixes for event in self._events(prefix)}
        new = sorted((event for key, event in found.items() if key not in self._shown), key=_time)
        for event in new:
            moment = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
            self.say(f"{moment:%Y-%m-%d %H:%M:%S} [{event['logStreamName']}] {event['message'].rstrip()}")
        self._last = max([self._last, *map(_time, new)])
        self._shown = set(found) or self._shown
        return len(new)

    def _events(self, prefix: str) -> Iterator[dict[str, Any]]:
        earliest = 0 if self.since is None else int((time.time() - self.since) * 1000)
        first = self._last - _LATE if self._last else earliest
        pages = self.logs.get_paginator("filter_log_events").paginate(
            logGroupName=self.group, logStreamNamePrefix=prefix, startTime=first
        )
        try:
            for page in pages:
                yield from page["events"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            # HyperPod creates the group with the first node's log.


def _time(event: dict[str, Any]) -> int:
    return int(event["timestamp"])
