"""Ray Train as what started this worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ray.train

from ray_resume.cluster_view import StepReports
from ray_resume.elastic.group import end_if_asked


class RayTrain:
    """Gives the rank, and passes reports on to Ray Train and to the watchdog of the attempt."""

    exports = True

    def __init__(self, run: str) -> None:
        self.rank: int = ray.train.get_context().get_world_rank()
        self._run = run
        self._steps: StepReports | None = None

    def reached(self, writer: str, step: int) -> None:
        """Report the step to the watchdog."""
        self._steps = self._steps or StepReports(self._run, writer)
        self._steps.reached(step)

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Report the metrics to Ray Train."""
        ray.train.report(dict(metrics))

    def end_if_asked(self, complete: Callable[[], None]) -> None:
        """End the workers of an elastic run if its driver has asked for it."""
        end_if_asked(complete)
