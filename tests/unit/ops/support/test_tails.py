"""Only the end of each log stream is kept."""

from ops.support.tails import Tails


def test_each_stream_keeps_its_own_last_lines() -> None:
    tails = Tails(lines=2)
    for number in range(4):
        tails.say(f"2026-11-02 10:15:0{number} [LifecycleConfig/a] line {number}")
    tails.say("2026-11-02 10:15:09 [LifecycleConfig/b] only line")
    assert [line.rpartition("] ")[2] for line in tails.text().splitlines()] == [
        "2 earlier lines left out",
        "line 2",
        "line 3",
        "only line",
    ]
    assert Tails().text() == ""
