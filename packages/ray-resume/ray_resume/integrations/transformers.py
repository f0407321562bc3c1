"""Hugging Face Transformers: a Trainer whose checkpoints are the run's.

    trainer = ResumingTrainer(ray_resume.Checkpoints(config["run"]), model, TrainingArguments(...), train_dataset=data)
    trainer.train()

Steps are the trainer's `global_step`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ray_resume.integrations.packages import needing
from ray_resume.worker import Checkpoints

with needing("transformers", "transformers"):
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

__all__ = ["ResumingTrainer"]

_CONTRADICTIONS: Final = ("load_best_model_at_end", "push_to_hub", "save_only_model")


class ResumingTrainer(Trainer):  # type: ignore[misc]  # transformers is in the jobs' environment only
    """A Trainer that saves when a checkpoint of the run is due, and resumes from the newest one.

    A checkpoint holds what the Trainer saves itself: model, optimizer, scheduler, scaler, generators and its position.
    What is due after the last step of an epoch is saved at the end of the epoch, with the metrics of its evaluation.
    `Run.every` and `Run.keep` decide instead of the Trainer's arguments `save_*`.
    """

    def __init__(
        self, checkpoints: Checkpoints, *arguments: Any, weights: Callable[[Path], None] | None = None, **words: Any
    ) -> None:
        """Take a Trainer's arguments after the run's checkpoints.

        Args:
            weights: loads the weights of another run, for a run that starts with them.

        Raises:
            ValueError: an argument of the Trainer contradicts the run's checkpoints.
        """
        super().__init__(*arguments, **words)
        for name in _CONTRADICTIONS:
            if getattr(self.args, name):
                raise ValueError(
                    f"{name}=True is invalid: the run keeps whole checkpoints in its folder. Fix: remove it"
                )
        self._checkpoints = checkpoints
        self._weights = weights
        self._reading = contextlib.ExitStack()
        self._writing_to: Path | None = None
        self._saved = 0
        self.add_callback(_Steps(checkpoints, self._reading))

    def train(self, **words: Any) -> Any:
        """Train as `Trainer.train` does; continue from the run's newest checkpoint."""
        with self._reading:
            directory, self._saved = self._reading.enter_context(self._checkpoints.restoring(self._weights))
            own = directory and str(directory / f"{PREFIX_CHECKPOINT_DIR}-{self._saved}")
            return super().train(resume_from_checkpoint=own, **words)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        step = self.state.global_step
        if step == self._saved:
            return
        self._saved = step

        def write(directory: Path) -> None:
            self._writing_to = directory
            super(ResumingTrainer, self)._save_checkpoint(model, trial)
            self._writing_to = None

        logged = [entry for entry in self.state.log_history if entry["step"] == step]
        self._checkpoints.save(step, write, {name: value for entry in logged for name, value in entry.items()})

    def _get_output_dir(self, trial: Any) -> Any:
        return self._writing_to or super()._get_output_dir(trial)


class _Steps(TrainerCallback):  # type: ignore[misc]  # transformers is in the jobs' environment only
    """Counts the steps, and tells the Trainer to save."""

    def __init__(self, checkpoints: Checkpoints, reading: contextlib.ExitStack) -> None:
        self._checkpoints = checkpoints
        self._reading = reading
        self._loss: float | None = None
        self._due = False

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        # The Trainer reads its generators last, just before its first step.
        self._reading.close()

    def on_log(self, _: Any, state: TrainerState, control: TrainerControl, **words: Any) -> None:  # noqa: ARG002
        self._loss = words.get("logs", {}).get("loss", self._loss)

    def on_step_end(self, _: Any, state: TrainerState, control: TrainerControl, **__: Any) -> None:
        self._checkpoints.meter.step(state.global_step, loss=self._loss)
        self._due = self._checkpoints.due(state.global_step, last=state.global_step >= state.max_steps)
        if not float(state.epoch).is_integer():
            self._save(control)

    def on_epoch_end(self, _: Any, state: TrainerState, control: TrainerControl, **__: Any) -> None:  # noqa: ARG002
        self._save(control)

    def _save(self, control: TrainerControl) -> None:
        control.should_save |= self._due
        self._due = False
