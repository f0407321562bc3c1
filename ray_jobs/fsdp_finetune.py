"""Fine-tune a text classifier with PyTorch FSDP on Ray Train, in a run that resumes from its last checkpoint.

With --storage alone it trains a tiny built-in transformer on generated sentences: for a laptop, or to test a cluster.
--model and --data take a Hugging Face model's folder and a file of labelled sentences; nothing is ever downloaded. The
same code runs on CPUs (gloo) and on nodes of eight GPUs (NCCL).

    python fsdp_finetune.py --storage /fsx/ray/runs --gpus --workers 16 \\
        --model /fsx/ray/models/bert --data /fsx/ray/data/cola.tsv
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from ray.train.torch import get_device
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

import ray_resume
from arguments import add_elastic_arguments, add_run_arguments, elastic_of, run_of
from ray_resume import torch_state
from ray_resume.data_order import DataOrder
from text_data import InvalidDataError, Sentences, made_here, read_sentences

WRAP_FROM_PARAMETERS = 10_000


class TinyClassifier(nn.Module):  # type: ignore[misc]  # torch is in the jobs' environment only
    """A transformer of two layers over bytes."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, labels)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return self.head((hidden * weights).sum(1) / weights.sum(1))


class LocalClassifier(nn.Module):  # type: ignore[misc]  # torch is in the jobs' environment only
    """A Hugging Face model from a folder."""

    def __init__(self, folder: str, labels: int) -> None:
        super().__init__()
        from transformers import AutoModelForSequenceClassification  # noqa: PLC0415 (seconds, for a real model only)

        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=labels, local_files_only=True
        )

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def train(config: dict[str, Any]) -> None:
    """Train in one worker; Ray Train calls it in each."""
    checkpoints = ray_resume.Checkpoints(config["run"])
    rank, world, device = dist.get_rank(), dist.get_world_size(), get_device()
    sentences = sentences_of(config)
    validation = config["validation"] and read_sentences(config["validation"], config["model"])
    order = checkpoints.data_order(len(sentences.labels), config["batch"], config["seed"])
    model = _sharded(config, sentences, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
    # Each worker drops out different neurons.
    torch_state.seed_all(config["seed"] + 1 + rank)
    load = functools.partial(
        torch_state.load, model=model, optimizer=optimizer, rank=rank, reseed=config["seed"] + 1 + rank
    )
    save = functools.partial(torch_state.save, model=model, optimizer=optimizer, rank=rank)
    weights = functools.partial(torch_state.load_weights, model=model)
    parameters = _parameters(model, device)
    model.train()
    steps = config["epochs"] * order.steps_per_epoch
    for step in range(checkpoints.restore(load, weights), steps):
        optimizer.zero_grad()
        loss, tokens = torch.zeros((), device=device), 0
        for indices, weight in order.pieces(step, rank, world, config["micro_batch"]):
            with checkpoints.meter.data():
                inputs, labels = sentences.batch(indices, device)
            tokens += inputs[0].numel()
            part = nn.functional.cross_entropy(model(*inputs).float(), labels) * weight
            part.backward()
            loss += part.detach()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        checkpoints.meter.step(step + 1, loss=loss, tokens=tokens, flops_per_token=6 * parameters)
        if checkpoints.due(step + 1, last=step + 1 == steps):
            dist.all_reduce(loss)
            metrics = {"loss": loss.item() / world, "epoch": (step + 1) / order.steps_per_epoch}
            if validation:
                confusion = predicted(model, validation, sentences.label_count, config["micro_batch"], device)
                metrics["matthews_correlation"] = matthews_correlation(confusion)
            checkpoints.save(step + 1, save, metrics)


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is in the jobs' environment only
def predicted(
    model: nn.Module, sentences: Sentences, labels: int, micro_batch: int, device: torch.device
) -> torch.Tensor:
    """Return how many sentences of each label (rows) all workers together take for each label (columns)."""
    model.eval()
    confusion = torch.zeros(labels, labels, device=device)
    all_at_once = DataOrder(len(sentences.labels), len(sentences.labels), 0)
    for indices, weight in all_at_once.pieces(0, dist.get_rank(), dist.get_world_size(), micro_batch):
        inputs, true = sentences.batch(indices, device)
        found = model(*inputs).argmax(dim=1)
        if weight:
            confusion.index_put_((true, found), torch.ones_like(true, dtype=confusion.dtype), accumulate=True)
    model.train()
    dist.all_reduce(confusion)
    return confusion


def matthews_correlation(confusion: torch.Tensor) -> float:
    """Return Matthews' correlation of true and found labels, from -1 to 1; 0 if all have or get the same label."""
    true, found, samples = confusion.double().sum(1), confusion.double().sum(0), confusion.double().sum()
    covariance = confusion.trace() * samples - true @ found
    spread = (samples**2 - true @ true) * (samples**2 - found @ found)
    return float(covariance / spread.sqrt()) if spread else 0.0


def _parameters(model: nn.Module, device: torch.device) -> int:
    """Return the number of parameters in all workers' parts."""
    number = torch.tensor(sum(one.numel() for one in model.parameters()), device=device)
    dist.all_reduce(number)
    return int(number)


def sentences_of(config: dict[str, Any]) -> Sentences:
    if config["data"]:
        return read_sentences(config["data"], config["model"])
    return made_here(config["samples"], config["seed"])


def classifier(config: dict[str, Any], labels: int) -> nn.Module:
    """Return the model with the same initial weights at every worker, whatever the number of workers."""
    torch_state.seed_all(config["seed"])
    return LocalClassifier(config["model"], labels) if config["model"] else TinyClassifier(labels)


def _sharded(config: dict[str, Any], sentences: Sentences, device: torch.device) -> FullyShardedDataParallel:
    gpu = device.type == "cuda"
    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
    return FullyShardedDataParallel(
        classifier(config, sentences.label_count),
        auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=WRAP_FROM_PARAMETERS),
        mixed_precision=half if gpu else None,
        cpu_offload=CPUOffload(offload_params=True) if gpu and config["cpu_offload"] else None,
        # With a mesh the checkpoint's parts are DTensors: the older sharded tensors cannot be empty at a worker.
        device_mesh=init_device_mesh(device.type, (dist.get_world_size(),)),
        device_id=device,
        use_orig_params=True,
    )


def main(
    train: Callable[[dict[str, Any]], None] = train, name: str = "fsdp-finetune", description: str | None = __doc__
) -> None:
    """Run the program with this train function and default name; lightning_finetune.py has the same arguments."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_run_arguments(parser, batch=16, epochs=3)
    add_elastic_arguments(parser)
    parser.add_argument("--model", metavar="FOLDER", help="a Hugging Face model's folder; default: a tiny transformer")
    parser.add_argument("--data", metavar="FILE", help="a line per sentence: label, tab, text; default: generated")
    parser.add_argument(
        "--validation", metavar="FILE", help="likewise: gives each checkpoint the metric matthews_correlation"
    )
    parser.add_argument("--samples", type=int, default=256, help="how many sentences to generate (%(default)s)")
    parser.add_argument("--cpu-offload", action="store_true", help="keep parameters in the nodes' memory between uses")
    options = parser.parse_args()
    if options.model and not options.data:
        parser.error("--model needs --data: generated sentences mean nothing to a real model")
    if options.validation and not options.data:
        parser.error("--validation needs --data")
    try:
        labels = []
        for file in filter(None, (options.data, options.validation)):
            with ray_resume.first_use(file, "read"):
                labels.append(read_sentences(file, options.model).label_count)
        if labels and labels[-1] > labels[0]:
            raise InvalidDataError(f"data file {options.validation}: it has a label that {options.data} lacks")
    except (InvalidDataError, ray_resume.InvalidInputError) as error:
        parser.error(str(error))
    except ray_resume.RunFailedError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    score = {"metric": "matthews_correlation", "best": "max"} if options.validation else {}
    run = run_of(parser, options, name, **score)
    names = (
        "model",
        "data",
        "validation",
        "samples",
        "cpu_offload",
        "batch",
        "micro_batch",
        "epochs",
        "seed",
        "learning_rate",
    )
    settings = {name: getattr(options, name) for name in names}
    workers = ray_resume.workers(options.workers, cpus=options.cpus, gpu=options.gpus)
    elastic = elastic_of(options)
    ray_resume.main(run, train, settings, workers, elastic=elastic, patience=options.patience, may_grow=("epochs",))


if __name__ == "__main__":
    main()
