"""A training that reports each step, saves every tenth, and is logged to MLflow and TensorBoard."""

import argparse
import time
from pathlib import Path
from typing import Any

import ray.train

import ray_resume
from ray_resume.tracking.mlflow_logger import MlflowLogger
from ray_resume.tracking.tensorboard_logger import TensorBoardLogger


def save(path: Path) -> None:
    (path / "state").touch()


def train(config: dict[str, Any], limit: Path) -> None:
    checkpoints = ray_resume.Checkpoints(config["run"])
    for step in range(checkpoints.restore(lambda _: None) + 1, config["steps"] + 1):
        while step > int(limit.read_text()):
            time.sleep(0.05)
        loss = 1 / step
        if checkpoints.due(step):
            checkpoints.save(step, save, {"loss": loss})
        else:
            ray.train.report({"step": step, "loss": loss})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", required=True)
    parser.add_argument("--limit", type=Path, required=True, help="a file with the last step that may be taken")
    options = parser.parse_args()
    run = ray_resume.Run.from_environment("job", options.storage, every=10)
    ray_resume.main(
        run,
        lambda config: train(config, options.limit),
        {"steps": 40},
        ray_resume.workers(1),
        callbacks=[MlflowLogger(run), TensorBoardLogger(run)],
    )


if __name__ == "__main__":
    main()
