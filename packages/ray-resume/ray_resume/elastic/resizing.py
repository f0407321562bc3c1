"""Train in one group of workers after the other, each with as many workers as there are resources for.

Every group has a record of its own in Ray Train, in a folder of its own, and resumes from the run's checkpoints: Ray
Train never trains a finished record again, and a group that ends for another one is finished.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.tune import Stopper

from ray_resume.cluster_view import free_resources, waiting_groups
from ray_resume.elastic.group import ElasticGroup, train_in
from ray_resume.elastic.sizes import Room, Sizes, fitting
from ray_resume.runs import Run
from ray_resume.storage import open_storage

FOLDER: Final = "ray_train"
"""Ray Train's record of the newest group of workers, below the run's folder."""

_LONGEST_PAUSE_SECONDS: Final = 5.0
_POLLS: Final = 20


def fit_in_groups(
    run: Run,
    train: Callable[[], None],
    sizes: Sizes,
    scaling: ScalingConfig,
    run_config: RunConfig,
    **words: Any,
) -> None:
    """Train until the training ends by itself.

    Args:
        train: trains in one worker.
        sizes: the numbers of workers that the run may have. It begins with the largest.
        scaling: Ray Train's, whose number of workers does not count.
        run_config: Ray Train's, whose folder and stopper do not count.
        words: further arguments of Ray Train's trainer.
    """
    storage = open_storage(run.storage, run.name)
    name, size = f"{run.name}: attempt {run.attempt}", sizes.full
    while True:
        storage.remove(FOLDER)
        group = ElasticGroup(name, uuid.uuid4().hex, size, sizes.full)
        resizing = Resizing(group, sizes, partial(_room, scaling))
        config = copy.copy(run_config)
        config.name, config.storage_path, config.stop = FOLDER, f"{run.storage.rstrip('/')}/{run.name}", resizing
        TorchTrainer(
            partial(train_in, group, train),
            scaling_config=dataclasses.replace(scaling, num_workers=size),
            run_config=config,
            **words,
        ).fit()
        following = resizing.smaller or group.ended()
        if following is None:
            return
        size = following


class _Never(Stopper):  # type: ignore[misc]  # Ray is in the jobs' environment only
    """Stops nothing."""

    def __call__(self, *_: object) -> bool:
        return False

    def stop_all(self) -> bool:
        return False


class Resizing(_Never):
    """Ends a group whose workers have waited for resources for too long, and asks one that can grow to end.

    Ray Tune asks it many times a second, in the driver, whether to stop.
    """

    def __init__(self, group: ElasticGroup, sizes: Sizes, observe: Callable[[], Room]) -> None:
        """Watch over a group; `look` returns what the cluster offers to it."""
        self.smaller: int | None = None
        """With how many workers to continue instead; None as long as the group need not end."""
        self._group = group
        self._sizes = sizes
        self._observe = observe
        self._pause = min(sizes.wait / _POLLS, _LONGEST_PAUSE_SECONDS)
        self._poll_at = 0.0
        self._waits_since: float | None = None
        self._asked: int | None = None
        self._has_begun = False

    def stop_all(self) -> bool:
        """Return whether the group must end now."""
        now = time.monotonic()
        if self.smaller is None and now >= self._poll_at:
            self._poll_at = now + self._pause
            # Whatever the error is, the next look may succeed.
            with contextlib.suppress(Exception):
                self._decide(self._observe(), now)
        return self.smaller is not None

    def _decide(self, room: Room, now: float) -> None:
        if not self._has_begun and self._group.has_begun():
            # Not in a worker: Ray shows lines of several workers that differ in their numbers only once in 5 seconds.
            self._has_begun = True
            self._say(f"runs with {self._group.size} of {self._group.full} workers")
        self._waits_since = (self._waits_since or now) if room.waits else None
        waited = now - (self._waits_since or now)
        self.smaller = self._sizes.smaller(self._group.size, room, waited)
        if self.smaller:
            message = f"continues with {self.smaller} of {self._group.full} workers"
            self._say(f"{message}: {self._group.size} had no resources for {waited:.0f} s")
            return
        larger = self._sizes.larger(self._group.size, room)
        if larger != self._asked:
            self._group.ask(larger)
            self._asked = larger
            if larger:
                self._say(f"has room for {larger} workers: it grows from {self._group.size} at its next checkpoint")

    def _say(self, text: str) -> None:
        print(f"{self._group.name} {text}", flush=True)

    def __reduce__(self) -> tuple[type[_Never], tuple[()]]:
        """Pickle to a stopper that never stops: Ray Train keeps one in its record, which is never continued."""
        return _Never, ()


def _room(scaling: ScalingConfig) -> Room:
    own, others = waiting_groups()
    free = fitting(_bundle(scaling), free_resources())
    return Room(waits=bool(own), free=free, wanted=bool(others))


def _bundle(scaling: ScalingConfig) -> dict[str, float]:
    """Return the resources of a worker: those of a placement group of two end with a worker's alone."""
    bundle: dict[str, float] = dataclasses.replace(scaling, num_workers=2).as_placement_group_factory().bundles[-1]
    return bundle
