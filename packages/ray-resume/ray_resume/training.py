"""Train until a run is done, with Ray Train's own record of it continued or new."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.base_trainer import TrainingFailedError
from ray.train.torch import TorchConfig, TorchTrainer

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.cluster_view import missing_resources, reported_steps
from ray_resume.elastic.resizing import fit_in_groups
from ray_resume.elastic.sizes import Elastic, sizes
from ray_resume.output.keeper import keep_output
from ray_resume.requests.on_sigterm import saving_on_sigterm
from ray_resume.requests.save_requests import SaveRequests
from ray_resume.runs import InvalidInputError, Run, RunFailedError, first_use
from ray_resume.storage import DamagedError, open_storage
from ray_resume.watchdog import PATIENCE, Watchdog
from ray_resume.worker import completing

if TYPE_CHECKING:
    from ray.data import Dataset

# Ray Train counts a bug in the code like a lost node: without a limit it would retry the bug forever.
WORKER_FAILURES: Final = 3
# In Ray Train's record: a train function of a module that is gone or renamed, objects of another version of Ray, and
# the code of another Python.
_FOREIGN = (ImportError, AttributeError, TypeError)
_TORN = (EOFError, KeyError, OSError, ValueError, pickle.UnpicklingError)


def main(
    run: Run,
    train: Callable[[dict[str, Any]], None],
    settings: Mapping[str, Any],
    scaling: ScalingConfig,
    *,
    worker_failures: int = WORKER_FAILURES,
    patience: float = PATIENCE,
    torch_config: TorchConfig | None = None,
    may_grow: Collection[str] = (),
    elastic: Elastic | None = None,
    datasets: Mapping[str, Dataset] | None = None,
    callbacks: Sequence[Any] = (),
    on_done: Callable[[Mapping[str, Any]], object] | None = None,
) -> NoReturn:
    """Train until the run is done and end the program: 0 done, 1 failed, 2 bad input.

    Args:
        train: the train function; its argument is `settings` and, as "run", the run.
        settings: values that must stay the same for the whole run; JSON must be able to hold them. Leave out what may
            change, such as the path of a final file.
        worker_failures: how often Ray Train restarts the workers within this attempt; 3 by default.
        patience: seconds without progress (no workers began, no step was taken, no file of a checkpoint appeared or
            grew) after which the attempt ends with 1. The time in which the workers wait for resources does not count.
            It must exceed the longest step and the start of the workers, with the reading of a checkpoint. 3600 by
            default.
        torch_config: Ray Train's settings of the process group, such as the seconds after which a collective operation
            fails (`TorchConfig(timeout_s=…)`, 1800).
        may_grow: names of settings whose numbers may become larger, such as "epochs": a run that is done trains on.
        elastic: with how few workers the run may continue, and after which time; by default it always has all.
        datasets: Ray Data's datasets, of which `ray.train.get_dataset_shard(name)` returns a worker's part. Workers
            that resume read them from the beginning.
        callbacks: Ray Train's callbacks. Ray keeps them in its record of the run, so that they must be picklable, and
            later attempts use those of the first.
        on_done: called in the program when all steps are trained, before the run is marked as done: with the name of
            the last checkpoint and its metrics, as they will stand in DONE.json. If it fails, or the program is killed
            meanwhile, the next attempt calls it again.
    """
    keep_output(run.name, run.storage)
    try:
        with first_use(run.storage, "read"):
            store = CheckpointStore(open_storage(run.storage, run.name))
        with Watchdog(
            f"{run.name}: attempt {run.attempt}",
            partial(store.left_by, run.attempt),
            patience,
            steps=partial(reported_steps, run.name, run.attempt),
            missing=missing_resources,
        ):
            fit(
                run,
                train,
                settings,
                scaling,
                worker_failures=worker_failures,
                torch_config=torch_config,
                may_grow=may_grow,
                elastic=elastic,
                datasets=datasets,
                callbacks=callbacks,
                on_done=on_done,
            )
    except InvalidInputError as error:
        print(f"{run.name}: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
    except RunFailedError as error:
        print(f"{run.name}: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    sys.exit(0)


def fit(
    run: Run,
    train: Callable[[dict[str, Any]], None],
    settings: Mapping[str, Any],
    scaling: ScalingConfig,
    *,
    worker_failures: int = WORKER_FAILURES,
    torch_config: TorchConfig | None = None,
    may_grow: Collection[str] = (),
    elastic: Elastic | None = None,
    datasets: Mapping[str, Dataset] | None = None,
    callbacks: Sequence[Any] = (),
    on_done: Callable[[Mapping[str, Any]], object] | None = None,
) -> None:
    """Train until the run is done; do nothing if it is done already. See `main`.

    Raises:
        InvalidInputError: the storage cannot be written, the run's name is in use, or the number of workers is invalid;
            or a worker raised it.
        RunFailedError: training failed, or the storage at its start, or `on_done`.
    """
    numbers = sizes(elastic or Elastic(), scaling.num_workers)
    # Ray Train V2 asks no Stopper, with which `fit_in_groups` ends a group of workers.
    if not numbers.fixed and TorchTrainer.__module__.startswith("ray.train.v2"):
        raise InvalidInputError(
            f"{min(numbers.allowed)} to {numbers.full} workers with Ray Train V2 are invalid: it never changes the "
            f"number of workers. Allowed: {numbers.full} workers (RUN_MIN_WORKERS={numbers.full}). "
            "Fix: set RAY_TRAIN_V2_ENABLED=0 in the job's environment, before Ray Train is imported"
        )
    scaling = dataclasses.replace(scaling, num_workers=numbers.full)
    storage = run.begin(settings, may_grow)
    if run.is_done(storage):
        return
    store = CheckpointStore(storage)
    run_config = RunConfig(
        name=run.name,
        storage_path=run.storage,
        failure_config=FailureConfig(max_failures=worker_failures),
        callbacks=list(callbacks),
    )
    # Not as train_loop_config: Ray Train would restore that of the earlier attempt.
    loop = partial(_train, train, {**settings, "run": run})
    # The job supervisor reads this line (controllers/job_decision.py): imports and process groups may take minutes.
    what = "worker" if numbers.full == 1 else "workers"
    print(f"{run.name}: attempt {run.attempt} starts {numbers.full} {what}", flush=True)
    try:
        with saving_on_sigterm(run.name, SaveRequests(store)):
            words = {"torch_config": torch_config, "datasets": dict(datasets or {})}
            if numbers.fixed:
                _fit(run, loop, run_config, scaling_config=scaling, **words)
            else:
                fit_in_groups(run, loop, numbers, scaling, run_config, **words)
    except (TrainingFailedError, *_TORN) as error:
        if isinstance(error.__cause__, DamagedError):
            # Only the workers have read all of the checkpoints' files.
            raise InvalidInputError(_cause(error)) from error
        # _TORN: on a full file system Ray Train cannot read its own record of the failure, and raises another error.
        if isinstance(error.__cause__, InvalidInputError):
            raise InvalidInputError(_cause(error).partition(": ")[2]) from error
        last = next(store.history(), None)
        where = f"the last checkpoint is {last.name}" if last else "there is no checkpoint"
        raise RunFailedError(f"attempt {run.attempt} failed; {where}. {_cause(error)}") from error
    outcome = store.outcome()
    if on_done:
        try:
            on_done(outcome)
        except Exception as error:
            raise RunFailedError(
                f"all steps are trained, but on_done failed: {error!r}. Another attempt calls it again"
            ) from error
    run.finish(storage, outcome)


def workers(number: int, *, cpus: float = 1, gpu: bool = False) -> ScalingConfig:
    """Return the scaling of `number` workers, each with `cpus` CPUs and, with `gpu`, one GPU.

    Ray Train's coordinator takes no CPU.
    """
    resources = {"CPU": cpus} | ({"GPU": 1} if gpu else {})
    try:
        # Otherwise Ray Train's coordinator needs a CPU, and workers that fill their pods are never scheduled.
        return ScalingConfig(
            num_workers=number, trainer_resources={"CPU": 0}, use_gpu=gpu, resources_per_worker=resources
        )
    except (DeprecationWarning, NotImplementedError):  # Ray Train V2 has no such coordinator.
        return ScalingConfig(num_workers=number, use_gpu=gpu, resources_per_worker=resources)


def _train(train: Callable[[dict[str, Any]], None], config: dict[str, Any]) -> None:
    """Train in one worker, and complete its last checkpoint."""
    with completing():
        train(config)


def _fit(run: Run, train: Callable[[], None], run_config: RunConfig, **words: Any) -> None:
    """Train with Ray Train's own record of the run, continued or new. The model is in the checkpoints, not in it."""
    path = f"{run.storage.rstrip('/')}/{run.name}"
    try:
        restored = TorchTrainer.can_restore(path) and TorchTrainer.restore(path, train_loop_per_worker=train, **words)
        if restored:
            restored.fit()
            return
    except DeprecationWarning:
        pass  # Ray Train V2 finds the run by its name.
    except (*_FOREIGN, *_TORN) as error:
        if any(
            writer.attempt == run.attempt for writer in CheckpointStore(open_storage(run.storage, run.name)).writers()
        ):
            raise
        # Ray Train does not write its files atomically: the writer may have been killed while writing.
        print(f"run {run.name}: Ray Train's record of the earlier attempts is unreadable, a new one begins ({error!r})")
    TorchTrainer(train, run_config=run_config, **words).fit()


def _cause(error: BaseException) -> str:
    """Return the last line of the error that Ray Train wraps: the train function's error, or what was lost."""
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[-1] if lines else repr(error)
