"""A job without a supervisor shows all of its output, once, though Ray's stream of it may end early or break."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from rich.console import Console

from ops.jobs import direct

OUTPUT = "".join(f"line {number} [red]ü[/red]\n" for number in range(5)) + "got 14\n"


class Head:
    """A head whose job ends while its output is streamed; each stream ends after that many characters."""

    def __init__(self, streams: Sequence[int]) -> None:
        self.streams = list(streams)

    def tail(self, _: str) -> Iterator[str]:
        end = self.streams.pop(0)
        yield from (OUTPUT[begin : min(begin + 7, end)] for begin in range(0, end, 7))

    def job(self, _: str) -> dict[str, Any]:
        return {"status": "RUNNING" if self.streams else "SUCCEEDED"}

    def output(self, _: str) -> str:
        return OUTPUT


@pytest.mark.parametrize(
    "streams",
    [[len(OUTPUT)], [0], [len(OUTPUT) - 7], [20, 35], [35, 20], [35, 0], [0, len(OUTPUT)]],
    ids=["whole", "nothing", "without the last line", "broken", "shorter", "head is silent", "late"],
)
def test_all_output_is_shown_once_wherever_streams_end(streams: list[int]) -> None:
    shown, head = io.StringIO(), Head(streams)
    assert direct.follow(head, "squares", Console(file=shown)) == 0  # type: ignore[arg-type]
    assert shown.getvalue() == OUTPUT
