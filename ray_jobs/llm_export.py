"""Write a model that llm_finetune.py trains as a Hugging Face folder, from the newest or best checkpoint of its run.

One process reads the workers' parts and writes one file of weights after the other; it never holds more than the
weights of one file. A whole model becomes a folder for `AutoModelForCausalLM.from_pretrained`, adapters become one for
`PeftModel.from_pretrained`.

    python llm_export.py --trained /fsx/ray/runs/RUN --folder /fsx/ray/models/tuned
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file
from transformers import PreTrainedModel

import ray_resume
from llm_model import INDEX, InvalidModelError, is_adapter, skeleton
from ray_resume.checkpoint_store import CheckpointStore, Saved
from ray_resume.storage import open_storage

FILE_SIZE = "1GB"
_COPIED = {".jinja", ".json", ".model", ".txt"}


def export(trained: str, folder: str) -> None:
    """Write the checkpoint with the lowest validation loss, or without one the newest, to a new folder.

    Args:
        trained: the run's folder, a path or s3://bucket/prefix.
        folder: the folder to write, which appears when it is complete.

    Raises:
        InvalidInputError: the folder exists, or the run has no checkpoint.
        InvalidModelError: the model with which the run began cannot be used, or the checkpoint is not of that model.
        RunFailedError: the storage cannot be read now.
    """
    target = Path(folder)
    if target.exists():
        raise ray_resume.InvalidInputError(f"--folder {folder} is invalid: it exists. Allowed: a new folder")
    parent, _, name = trained.rstrip("/").rpartition("/")
    with ray_resume.first_use(trained, "read"):
        store = CheckpointStore(open_storage(parent, name))
        settings = json.loads(store.storage.read("run.json") or b"{}")
        saved = _chosen(store)
    if saved is None or "lora" not in settings:
        raise ray_resume.InvalidInputError(f"--trained {trained} is invalid: it has no checkpoint of llm_finetune.py")
    model = skeleton(settings["model"], settings["lora"])
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with store.storage.reading(saved.folder) as checkpoint:
        if settings["lora"]:
            _write_adapters(checkpoint, model, partial)
        else:
            _write_model(checkpoint, model, Path(settings["model"]), partial)
    partial.rename(target)
    print(f"checkpoint {saved.name} of run {name} exported to {folder}", flush=True)


def _chosen(store: CheckpointStore) -> Saved | None:
    """Return the checkpoint with the lowest validation loss; the newest one if none has it."""
    history = [saved for saved in store.history() if store.is_whole(saved)]
    losses = {saved: ((store.manifest(saved) or {}).get("metrics") or {}).get("validation_loss") for saved in history}
    measured = {saved: loss for saved, loss in losses.items() if loss is not None}
    return min(measured, key=measured.__getitem__) if measured else next(iter(history), None)


def _write_model(checkpoint: Path, model: PreTrainedModel, base: Path, folder: Path) -> None:
    dtype = model.config.torch_dtype or torch.float32
    # Tied weights are here once, under the name that the file of a saved model gives them.
    empty = {name: parameter.to(dtype) for name, parameter in model.named_parameters()}
    files = split_torch_state_dict_into_shards(
        empty, filename_pattern="model{suffix}.safetensors", max_shard_size=FILE_SIZE
    )
    for file, names in files.filename_to_tensors.items():
        weights = _weights(checkpoint, {name: empty[name].shape for name in names})
        save_file({name: one.to(dtype) for name, one in weights.items()}, folder / file, metadata={"format": "pt"})
    if files.is_sharded:
        index = {"metadata": files.metadata, "weight_map": files.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")
    for other in base.iterdir():
        if other.suffix in _COPIED and other.name != INDEX:
            shutil.copy(other, folder)


def _write_adapters(checkpoint: Path, model: PreTrainedModel, folder: Path) -> None:
    shapes = {name: parameter.shape for name, parameter in model.named_parameters() if is_adapter(name)}
    weights = _weights(checkpoint, shapes)
    named = {f"base_model.model.{name.replace('.default.', '.')}": one for name, one in weights.items()}
    save_file(named, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    model.peft_config["default"].save_pretrained(folder)


def _weights(checkpoint: Path, shapes: dict[str, torch.Size]) -> dict[str, torch.Tensor]:
    """Return these weights of a checkpoint; only they are read."""
    weights = {name: torch.empty(shape) for name, shape in shapes.items()}
    try:
        dcp.load({"model": weights}, checkpoint_id=checkpoint)
    except RuntimeError as error:
        raise InvalidModelError(f"checkpoint {checkpoint.name} is invalid: {str(error).splitlines()[0]}") from error
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--trained", metavar="FOLDER", required=True, help="the folder of a run of llm_finetune.py")
    parser.add_argument("--folder", metavar="FOLDER", required=True, help="the Hugging Face folder to write")
    options = parser.parse_args()
    try:
        export(options.trained, options.folder)
    except (InvalidModelError, ray_resume.InvalidInputError) as error:
        parser.error(str(error))
    except ray_resume.RunFailedError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
