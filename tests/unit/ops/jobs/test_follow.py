"""A follower outlives an API server that is away, or refuses what it allowed, as after an upgrade of Kubernetes."""

import io
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiException
from rich.console import Console

from ops.errors import UnreachableError
from ops.jobs.operators import follow
from ops.jobs.operators.follow import asked, follow_first_worker

REFUSED = ApiException(status=403, reason="Forbidden")
AWAY = ApiException(status=0, reason="refused")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Pass the time of each pause at once."""
    made: SimpleNamespace = SimpleNamespace(now=0.0)
    made.monotonic = lambda: made.now
    made.sleep = lambda seconds: setattr(made, "now", made.now + seconds)
    monkeypatch.setattr(follow, "time", made)
    return made


class Answers:
    """Return or raise the given answers in turn; the last one again and again."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def __call__(self, *_: object) -> Any:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("trouble", [REFUSED, AWAY], ids=["refused", "away"])
def test_who_had_an_answer_asks_again_for_a_minute(trouble: Exception, clock: SimpleNamespace) -> None:
    assert asked(Answers(*[trouble] * 59, "here"), again=True) == "here"
    with pytest.raises(UnreachableError):
        asked(Answers(trouble), again=True)
    assert 59 + 60 <= clock.now <= 59 + 61


def test_who_never_had_an_answer_is_told_at_once(clock: SimpleNamespace) -> None:
    with pytest.raises(UnreachableError, match=r"refuses this request \(403\)"):
        asked(Answers(REFUSED, "here"), again=False)
    assert clock.now == 0


class UpgradedApi:
    """A run whose API server is upgraded while its log is read."""

    def __init__(self) -> None:
        worker = SimpleNamespace(restart_count=0, state=SimpleNamespace(waiting=None))
        pod = SimpleNamespace(
            metadata=SimpleNamespace(name="train-0", uid="u1"), status=SimpleNamespace(container_statuses=[worker])
        )
        run = SimpleNamespace(state={}, phase="running", finished=False)
        ended = SimpleNamespace(state={"exit_code": 0}, phase="succeeded", finished=True)
        self.get = Answers(run, REFUSED, AWAY, run, ended)
        self.first_worker = Answers(pod)
        self._logs: Iterator[list[object]] = iter([[b"step 1\n", AWAY], [REFUSED], [b"step 1\nstep 2\n"], [b""]])

    def log(self, _pod: str) -> Iterable[bytes]:
        for piece in next(self._logs):
            if isinstance(piece, Exception):
                raise piece
            assert isinstance(piece, bytes)
            yield piece


def test_output_continues_where_it_was() -> None:
    shown = io.StringIO()
    runs: Any = UpgradedApi()
    assert follow_first_worker(runs, "train", Console(file=shown)) == 0
    assert shown.getvalue() == "step 1\nstep 2\n"
