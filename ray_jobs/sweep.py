"""Find the best learning rate for pytorch_ddp.py with Ray Tune, in a run that resumes.

Each trial is a training with checkpoints of its own. A trial that loses a worker resumes from its own last checkpoint,
and so does every unfinished trial in the next attempt. If Ray Tune's record is torn, all trials begin again, and those
that were done end at once.

    <RUN_STORAGE>/<RUN_NAME>/trials/lr-0.01/   a trial's run, as pytorch_ddp.py writes it
    <RUN_STORAGE>/<RUN_NAME>/tune/             Ray Tune's record of the trials
    <RUN_STORAGE>/<RUN_NAME>/DONE.json         the best trial, for --trained of batch_inference.py

    python sweep.py --storage /fsx/ray/runs --learning-rate 0.1 0.03 0.01 --gpus --workers 8
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ray import tune
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import pytorch_ddp
import ray_resume
from arguments import add_run_arguments, run_of
from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.storage import open_storage
from ray_resume.watchdog import Watchdog

WORKER_FAILURES: Final = 3
# Ray Tune does not write its files atomically.
_TORN: Final = (EOFError, KeyError, OSError, ValueError, pickle.UnpicklingError)


class TrialProgress(tune.Callback):  # type: ignore[misc]  # Ray is not installed where types are checked
    """Prints the steps of all trials together: the supervisor reads them as the progress of the run."""

    def on_trial_result(self, *, trials: list[Any], **_: Any) -> None:
        steps = sum(int((each.last_result or {}).get("step", 0)) for each in trials)
        print(f"trials: checkpoint of step {steps} written, of all {len(trials)} trials together", flush=True)


class Sweep:
    """A training for each learning rate, with the settings that all trainings share."""

    def __init__(self, run: ray_resume.Run, settings: dict[str, Any], rates: Sequence[float]) -> None:
        self.folder = f"{run.storage.rstrip('/')}/{run.name}"
        self._run = run
        self._settings = settings
        self._rates = rates

    def fit(self, scaling: ScalingConfig) -> None:
        """Train until all trials are done.

        Raises:
            InvalidInputError: the storage cannot be written, or the run's name is in use.
            RunFailedError: a trial failed, or the storage at its start.
        """
        storage = self._run.begin({**self._settings, "learning_rates": list(self._rates)})
        if self._run.is_done(storage):
            return
        for rate in self._rates:
            self._trial(rate).begin({**self._settings, "learning_rate": rate})
        results = self._tune(scaling)
        if results.errors:
            raise ray_resume.RunFailedError(
                f"{len(results.errors)} of {len(self._rates)} trials failed; another attempt resumes them. "
                f"{str(results.errors[0]).strip().splitlines()[-1]}"
            )
        loss, name = min((self._loss(rate), self._trial(rate).name) for rate in self._rates)
        print(f"best: {name} with loss {loss:.4f}. Use it with --trained {self.folder}/trials/{name}", flush=True)
        self._run.finish(storage, {"best": name, "metrics": {"loss": loss}})

    def left_by_trials(self) -> dict[str, int]:
        """Return the size of each file that this attempt has written, of all trials."""
        return {
            f"{rate}/{file}": size
            for rate in self._rates
            for file, size in self._store(rate).left_by(self._run.attempt).items()
        }

    def _tune(self, scaling: ScalingConfig) -> tune.ResultGrid:
        # Not in the trial's config: Ray Tune would restore the attempt of the earlier record.
        trainer = TorchTrainer(partial(_train, self), scaling_config=scaling)
        record = f"{self.folder}/tune"
        try:
            if tune.Tuner.can_restore(record):
                return tune.Tuner.restore(record, trainer, resume_errored=True).fit()
        except _TORN as error:
            if self.left_by_trials():
                raise ray_resume.RunFailedError(f"Ray Tune failed: {error!r}") from error
            print(f"Ray Tune's record is unreadable, a new one begins ({error!r})", flush=True)
        return tune.Tuner(
            trainer,
            param_space={"train_loop_config": {"learning_rate": tune.grid_search(list(self._rates))}},
            run_config=RunConfig(
                name="tune",
                storage_path=self.folder,
                failure_config=FailureConfig(max_failures=WORKER_FAILURES),
                callbacks=[TrialProgress()],
                verbose=0,
            ),
        ).fit()

    def train(self, rate: float) -> None:
        """Train a trial in one of its workers."""
        pytorch_ddp.train({**self._settings, "learning_rate": rate, "run": self._trial(rate)})

    def _trial(self, rate: float) -> ray_resume.Run:
        return replace(self._run, name=f"lr-{rate:g}", storage=f"{self.folder}/trials")

    def _store(self, rate: float) -> CheckpointStore:
        trial = self._trial(rate)
        return CheckpointStore(open_storage(trial.storage, trial.name))

    def _loss(self, rate: float) -> float:
        store = self._store(rate)
        manifest = store.manifest(next(store.history()))
        return float((manifest or {})["metrics"]["loss"])


def _train(sweep: Sweep, config: dict[str, Any]) -> None:
    sweep.train(config["learning_rate"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        conflict_handler="resolve",
    )
    add_run_arguments(parser, batch=32, epochs=3)
    parser.add_argument("--learning-rate", type=float, nargs="+", default=[0.1, 0.01, 0.001], help="(%(default)s)")
    parser.add_argument("--samples", type=int, default=512, help="how many images to generate (%(default)s)")
    options = parser.parse_args()
    rates = options.learning_rate
    if len({f"{rate:g}" for rate in rates}) < len(rates):
        parser.error(f"--learning-rate {rates} is invalid. Allowed: rates that differ in their first six digits")
    run = run_of(parser, options, "sweep")
    settings = {name: getattr(options, name) for name in ("samples", "batch", "micro_batch", "epochs", "seed")}
    sweep = Sweep(run, settings, rates)
    try:
        with Watchdog(f"{run.name}: attempt {run.attempt}", sweep.left_by_trials, options.patience):
            sweep.fit(ray_resume.workers(options.workers, cpus=options.cpus, gpu=options.gpus))
    except ray_resume.InvalidInputError as error:
        parser.error(str(error))
    except ray_resume.RunFailedError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
