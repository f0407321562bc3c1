"""How often a supervisor asks the head."""

import pytest

from controllers import ray_jobs_api
from controllers.ray_jobs_api import Pace


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        """Return the time that the test set."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ray_jobs_api, "time", made)
    return made


def ask(pace: Pace, clock: Clock, seconds: float) -> None:
    """Ask a head that answers after `seconds`."""
    with pace:
        clock.now += seconds


@pytest.mark.parametrize(("answer", "pause"), [(0.01, 0.05), (5, 25)])
def test_head_is_asked_the_less_often_the_slower_it_answers(clock: Clock, answer: float, pause: float) -> None:
    pace = Pace()
    assert pace.allows("10.0.0.1")
    ask(pace, clock, answer)
    clock.now += 0.9 * pause
    assert not pace.allows("10.0.0.1")
    clock.now += 0.2 * pause
    assert pace.allows("10.0.0.1")
    assert not pace.allows("10.0.0.1", 30), "rarely while its output arrives"


def test_new_head_does_not_wait_for_the_slowness_of_the_old_one(clock: Clock) -> None:
    pace = Pace()
    pace.allows("10.0.0.1")
    ask(pace, clock, 5)
    assert not pace.allows("10.0.0.1")
    assert pace.allows("10.0.0.2")
