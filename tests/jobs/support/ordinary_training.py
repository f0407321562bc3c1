"""An ordinary Ray Train script with the lines of docs/reference/job-library.md that resume it after a lost head."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

STEPS = 6
HELD = 3
"""The step before which the script waits for the file `go`."""


def train(config: dict[str, Any]) -> None:
    done = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as directory:
            done = int(Path(directory, "step").read_text())
        print(f"resumes from step {done}", flush=True)
    for step in range(done, STEPS):
        while step == HELD and not Path(config["go"]).exists():
            time.sleep(0.1)
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "step").write_text(str(step + 1))
            ray.train.report({"step": step + 1}, checkpoint=Checkpoint.from_directory(directory))
        print(f"checkpoint of step {step + 1} written", flush=True)


def main() -> None:
    name, storage = os.environ["RUN_NAME"], os.environ["RUN_STORAGE"]
    path = f"{storage}/{name}"
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "0"
    if TorchTrainer.can_restore(path):
        trainer = TorchTrainer.restore(path, train_loop_per_worker=train)
    else:
        trainer = TorchTrainer(
            train,
            train_loop_config={"go": f"{storage}/go"},
            scaling_config=ScalingConfig(num_workers=1, trainer_resources={"CPU": 0}),
            run_config=RunConfig(name=name, storage_path=storage, failure_config=FailureConfig(max_failures=3)),
        )
    trainer.fit()


if __name__ == "__main__":
    main()
