"""Classify many images with Ray Data, in a run that resumes with the parts that are not done yet.

The model is the one that pytorch_ddp.py trained (--trained: its run's folder), or an untrained one. Ray Data repeats
the unfinished work of a lost worker node. If the head is lost, the next attempt classifies the parts without a record.

    <RUN_STORAGE>/<RUN_NAME>/output/00003@0002/*.parquet   part 3, as attempt 2 wrote it
    <RUN_STORAGE>/<RUN_NAME>/parts/00003.json              its record, written last: only then is the part done

    python batch_inference.py --storage /fsx/ray/runs --trained /fsx/ray/runs/pytorch-ddp --gpus --workers 8
"""

from __future__ import annotations

import argparse
import sys
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import ray
import torch
from ray.train import CheckpointConfig

import ray_resume
from arguments import positive
from pytorch_ddp import images, network
from ray_resume import torch_state
from ray_resume.checkpoint_store import CheckpointStore, as_json, now
from ray_resume.storage import RunStorage, open_storage

BATCH = 64


class Classifier:
    """The model, loaded once by each worker."""

    def __init__(self, trained: str | None, seed: int, gpu: bool) -> None:
        torch_state.seed_all(seed)
        self._model = network().eval()
        self._device = torch.device("cuda" if gpu else "cpu")
        newest = newest_checkpoint(trained) if trained else None
        if newest:
            storage, folder = newest
            with storage.reading(folder) as directory:
                torch_state.load_weights(directory, self._model)
        self._model.to(self._device)
        self._seed = seed

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        pictures = torch.stack([images(1, self._seed + int(one))[0][0] for one in batch["id"]])
        with torch.inference_mode():
            labels = self._model(pictures.to(self._device)).argmax(dim=1)
        return {"id": batch["id"], "label": labels.cpu().numpy()}


def newest_checkpoint(trained: str) -> tuple[RunStorage, str] | None:
    """Return the storage of a trained run and the folder of its newest checkpoint; None if it has no checkpoint."""
    parent, _, name = trained.rstrip("/").rpartition("/")
    storage = open_storage(parent, name)
    newest = next(CheckpointStore(storage).history(), None)
    return (storage, newest.folder) if newest else None


def classify(run: ray_resume.Run, settings: dict[str, Any], options: argparse.Namespace) -> None:
    """Classify the parts that are not done.

    Raises:
        InvalidInputError: the storage cannot be written, or the run's name is in use.
        RunFailedError: the storage cannot be used now.
    """
    storage = run.begin(settings)
    if run.is_done(storage):
        return
    done = set(storage.names("parts"))
    base = run.storage.rstrip("/")
    for part in range(settings["parts"]):
        name = f"{part:05}"
        if f"{name}.json" in done:
            continue
        first, last = (settings["samples"] * index // settings["parts"] for index in (part, part + 1))
        # Each attempt has its own folder, so that no rows of another attempt are in it.
        folder = PurePosixPath("output", f"{name}@{run.attempt:04}")
        storage.remove(str(folder))
        ray.data.range(last - first).map_batches(lambda batch, first=first: {"id": batch["id"] + first}).map_batches(
            Classifier,
            fn_constructor_args=(settings["trained"], settings["seed"], options.gpus),
            concurrency=options.workers,
            batch_size=BATCH,
            num_gpus=1 if options.gpus else 0,
        ).write_parquet(f"{base}/{run.name}/{folder}")
        storage.put(f"parts/{name}.json", as_json({"output": str(folder), "rows": last - first, "written": now()}))
        print(f"run {run.name} attempt {run.attempt}: part {part + 1} of {settings['parts']} done", flush=True)
    run.finish(storage, {"rows": settings["samples"]})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--name", help="the run's name; RUN_NAME overrides it")
    parser.add_argument("--storage", metavar="PATH", help="where runs are kept; RUN_STORAGE overrides it")
    parser.add_argument("--trained", metavar="FOLDER", help="the folder of a run of pytorch_ddp.py")
    parser.add_argument("--workers", type=positive, default=2, help="how many workers classify (%(default)s)")
    parser.add_argument("--gpus", action="store_true", help="each worker has a GPU of its own")
    parser.add_argument("--samples", type=positive, default=1000, help="how many images to classify (%(default)s)")
    parser.add_argument("--parts", type=positive, default=5, help="in how many parts (%(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="(%(default)s)")
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("trained", "samples", "parts", "seed")}
    try:
        run = ray_resume.Run.from_environment(
            options.name or "batch-inference", options.storage, every=1, keep=CheckpointConfig()
        )
        if options.trained:
            with ray_resume.first_use(options.trained, "read"):
                trained = newest_checkpoint(options.trained)
            if not trained:
                parser.error(f"--trained {options.trained}: the folder has no checkpoint")
        classify(run, settings, options)
    except ray_resume.InvalidInputError as error:
        parser.error(str(error))
    except ray_resume.RunFailedError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
