"""When a watched program ends, the run is interrupted, and the program's end is reported as the reason."""

import threading
import time

import pytest

from embedded_account.machine.processes import ProgramEndedError
from rehearsal.watch import Watch
from tests.support.waiting import PATIENCE_SECONDS

ENDED = ProgramEndedError("etcd was ended by SIGKILL; its log: …")


@pytest.fixture
def watch() -> Watch:
    """Return a watch that another thread soon notifies of an end, as a supervisor does."""
    made = Watch()
    threading.Timer(0.2, made.failed, [ENDED]).start()
    return made


def test_work_that_waits_is_interrupted(watch: Watch) -> None:
    done = list[str]()

    def work() -> None:
        time.sleep(PATIENCE_SECONDS)
        done.append("slept for long")

    with pytest.raises(ProgramEndedError, match="etcd was ended by SIGKILL"), watch.interrupting():
        work()
    assert done == []


def test_an_error_that_follows_from_the_end_is_not_the_reason(watch: Watch) -> None:
    with pytest.raises(ProgramEndedError, match="etcd"), watch.interrupting():
        raise ConnectionRefusedError("the API server does not answer")


def test_an_independent_error_stays_the_reason() -> None:
    with pytest.raises(ValueError, match="its own"), Watch().interrupting():
        raise ValueError("its own")


def test_an_interruption_by_the_user_stays_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt), Watch().interrupting():
        raise KeyboardInterrupt


def test_no_further_step_begins_after_an_end() -> None:
    watch = Watch()
    watch.failed(ENDED)
    with pytest.raises(ProgramEndedError), watch.interrupting():
        pytest.fail("begun in spite of the end")


def test_an_end_after_the_work_interrupts_nothing() -> None:
    watch = Watch()
    with watch.interrupting():
        pass
    watch.failed(ENDED)
    watch.failed(ENDED)
