"""Durations of the command line have a unit; a bare number is refused with the fix."""

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from ops.durations import Duration, at_least, duration, elapsed, until_next_poll


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("0s", 0), ("0.5m", 30)]
)
def test_a_duration_is_a_number_and_a_unit(written: str, seconds: float) -> None:
    assert duration(written) == Duration(seconds)


@pytest.mark.parametrize("written", ["", "soon", "-1m", "m", "1 m", "1h30m", "10min", "1e3s", "1m\n"])
def test_anything_else_is_refused_with_examples(written: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is no duration\. Allowed: .* such as 90s, 10m, 2h or 1d\. Fix: "):
        duration(written)


def test_a_bare_number_is_refused_with_the_units_that_it_may_mean() -> None:
    with pytest.raises(typer.BadParameter, match=r"Fix: give the unit: 120s or 120m$"):
        duration("120")


def test_a_duration_that_is_too_short_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match=r"29s is too short\. Allowed: 30s or longer"):
        at_least(Duration(30))("29s")
    assert at_least(Duration(30))("30s") == Duration(30)


@given(st.integers(min_value=0, max_value=10**7))
def test_a_duration_is_shown_as_it_can_be_typed(seconds: int) -> None:
    assert duration(str(Duration(seconds))) == Duration(seconds)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(7200, "2h"), (130 * 60, "130m"), (15, "15s"), (0, "0s"), (0.2, "0.2s")]
)
def test_a_duration_is_shown_in_the_largest_whole_unit(seconds: float, shown: str) -> None:
    assert str(Duration(seconds)) == shown


@pytest.mark.parametrize(
    ("waited", "interval", "pause"), [(0, 5, 1), (4, 5, 1), (12, 5, 3), (20, 5, 5), (3600, 5, 5), (0, 0.2, 0.2)]
)
def test_looks_become_rarer_up_to_the_interval(waited: float, interval: float, pause: float) -> None:
    assert until_next_poll(waited, interval) == pause


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (7200, "120 min 00 s")])
def test_elapsed_time_in_words(seconds: float, said: str) -> None:
    assert elapsed(seconds) == said
