"""A supervisor stops and submits nothing in Ray unless its Lease stays its own for as long as Ray may need to answer.

Otherwise a successor, which waits for the Lease to expire, could act at the same time: two attempts would write.
"""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from controllers import lease, supervision
from controllers.job_decision import Limits
from controllers.job_run import SupervisedRun
from controllers.run_objects import LEASE_SECONDS
from controllers.supervision import Supervisor
from controllers.telemetry import Metrics
from tests.support.fake_kubernetes import LEASES, FakeKubernetes, Object
from tests.support.fake_ray import FakeJob, FakeRay
from tests.support.supervised_run import Supervised
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.controllers.test_replaced_supervisor import leave

ROOM: Final = 20.0
"""Seconds that must be left of the Lease; Ray's answer to a submission is awaited for 15."""
REQUESTS: Final = (
    f"PUT {LEASES}/train",
    "GET /api/version",
    "GET /api/jobs/train-2",
    "GET /api/jobs/",
    "POST /api/jobs/train-1/stop",
)
"""The requests of a submission, but for the submission itself."""


class SlowAnswers:
    """A clock that jumps at the nth answer to one request; `ages` are those of the Lease at each act in Ray."""

    def __init__(self, ray: FakeRay, kubernetes: FakeKubernetes, request: str, nth: int, seconds: float) -> None:
        self._ray, self._kubernetes = ray, kubernetes
        self._request, self._left, self._seconds = request, nth, seconds
        self._passed = 0.0
        self._renewed_at = float("-inf")
        self.ages: list[float] = []

    def monotonic(self) -> float:
        return time.monotonic() + self._passed

    def of_ray(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if method == "POST":
            self.ages.append(self.monotonic() - self._renewed_at)
        answer = FakeRay.answer(self._ray, method, path, body)
        if job := self._ray.jobs.get("train-2"):
            job.end("SUCCEEDED", 0)
        self._answered(f"{method} {path}")
        return answer

    def of_kubernetes(self, method: str, target: str, body: Object) -> tuple[int, Object]:
        began = self.monotonic()
        answer = FakeKubernetes.answer(self._kubernetes, method, target, body)
        if method == "PUT":
            # The server writes the Lease at any moment until it answers.
            self._renewed_at = began
        self._answered(f"{method} {target}")
        return answer

    def _answered(self, request: str) -> None:
        self._left -= request == self._request
        if self._left == 0:
            self._left, self._passed = -1, self._passed + self._seconds


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("seconds", [LEASE_SECONDS - ROOM - 2, LEASE_SECONDS - ROOM + 1])
def test_nothing_is_stopped_or_submitted_under_a_lease_that_may_expire_meanwhile(
    kubernetes: FakeKubernetes,
    ray: FakeRay,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    request_: str,
    nth: int,
    seconds: float,
) -> None:
    """An earlier attempt still runs in Ray, and one answer comes late."""
    slow = SlowAnswers(ray, kubernetes, request_, nth, seconds)
    Supervised(kubernetes, ray.host, tmp_path)
    monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=slow.monotonic))
    for name in ("_POLL_SECONDS", "_FIRST_LISTS_SECONDS"):
        monkeypatch.setattr(supervision, name, 0.02)
    monkeypatch.setattr(ray, "answer", slow.of_ray)
    monkeypatch.setattr(kubernetes, "answer", slow.of_kubernetes)
    metadata = {"run": "train", "attempt": "1", "supervisor": "job-1"}
    ray.jobs["train-1"] = FakeJob({"entrypoint": "x", "metadata": metadata})
    run = SupervisedRun("train", "ray", "rayml", "python train.py", "/fsx/runs", package=None, first_attempt=2)
    limits = Limits(attempts=20, stalled=3, seconds=3600)
    supervisor = Supervisor(kubernetes.cluster, Metrics(), run, limits, "train-a")
    timer = threading.Timer(PATIENCE_SECONDS, supervisor.ending.set)
    timer.start()
    try:
        assert supervisor.run() == 0
    finally:
        timer.cancel()
        leave()
    assert (ray.submissions, ray.stops) == (["train-2"], ["train-1"])
    assert max(slow.ages) <= LEASE_SECONDS - ROOM + 0.5
