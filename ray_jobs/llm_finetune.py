"""Fine-tune a causal language model with PyTorch FSDP on Ray Train, in a run that resumes from its last checkpoint.

The model is a Hugging Face folder; nothing is ever downloaded. No worker holds the whole model. The same code runs on
CPUs (gloo) and on nodes of eight GPUs (NCCL, bf16).

    python llm_finetune.py --storage /fsx/ray/runs --gpus --workers 16 --model /fsx/ray/models/llama-7b \\
        --data /fsx/ray/data/train.jsonl --validation /fsx/ray/data/validation.jsonl --activation-checkpointing

llm_export.py writes the result as a Hugging Face folder.
"""

from __future__ import annotations

import argparse
import functools
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from ray.train.torch import get_device
from torch import nn
from transformers import get_cosine_schedule_with_warmup

import ray_resume
from arguments import add_elastic_arguments, add_run_arguments, elastic_of, positive, run_of
from llm_data import Sequences, read_sequences
from llm_model import InvalidModelError, Memory, Weights, accumulating, clip, sharded, skeleton
from ray_resume import torch_state
from ray_resume.data_order import DataOrder
from text_data import InvalidDataError

SETTINGS = ("model", "data", "validation", "length", "lora", "batch", "epochs", "seed", "learning_rate", "warmup")


@dataclass(frozen=True)
class ShardedWorker:
    """What a worker computes with: the sharded model and the worker's place among the others."""

    model: nn.Module
    micro_batch: int
    device: torch.device

    def train(self, sequences: Sequences, order: DataOrder, step: int) -> torch.Tensor:
        """Add up the gradients of a step's global batch; return this worker's part of its mean loss."""
        self.model.train()
        pieces = order.pieces(step, dist.get_rank(), dist.get_world_size(), self.micro_batch)
        total = torch.zeros((), device=self.device)
        for number, (indices, weight) in enumerate(pieces, 1):
            with accumulating(self.model, last=number == len(pieces)):
                loss = self._loss(sequences, indices) * weight
                loss.backward()
            total += loss.detach()
        return total

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is in the jobs' environment only
    def evaluate(self, sequences: Sequences) -> float:
        """Return the mean loss of all sequences."""
        self.model.eval()
        pieces = DataOrder(len(sequences), len(sequences), 0).pieces(
            0, dist.get_rank(), dist.get_world_size(), self.micro_batch
        )
        parts = [self._loss(sequences, indices) * weight for indices, weight in pieces]
        return mean(torch.stack(parts).sum())

    def _loss(self, sequences: Sequences, indices: list[int]) -> torch.Tensor:
        tokens = sequences.batch(indices, self.device)
        return self.model(input_ids=tokens, labels=tokens, use_cache=False).loss.float()


def mean(part: torch.Tensor) -> float:
    """Return the mean over all workers."""
    dist.all_reduce(part)
    return float(part.item() / dist.get_world_size())


def train(memory: Memory, config: dict[str, Any]) -> None:
    """Train in one worker; Ray Train calls it in each."""
    checkpoints = ray_resume.Checkpoints(config["run"])
    rank, device = dist.get_rank(), get_device()
    sequences = read_sequences(config["data"], config["model"], config["length"])
    validation = config["validation"] and read_sequences(config["validation"], config["model"], config["length"])
    order = checkpoints.data_order(len(sequences), config["batch"], config["seed"])
    steps = config["epochs"] * order.steps_per_epoch
    model = skeleton(config["model"], config["lora"])
    model = sharded(model, Weights(config["model"], model, config["seed"]), memory, device)
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), config["learning_rate"])
    scheduler = get_cosine_schedule_with_warmup(optimizer, config["warmup"], steps)
    # Each worker drops out different neurons.
    torch_state.seed_all(config["seed"] + 1 + rank)
    state = {"model": model, "optimizer": optimizer, "rank": rank, "extra": {"scheduler": scheduler}}
    state["frozen"] = not config["lora"]
    save = functools.partial(torch_state.save, **state)
    load = functools.partial(torch_state.load, reseed=config["seed"] + 1 + rank, **state)
    worker = ShardedWorker(model, memory.micro_batch, device)
    tokens, since = 0, time.monotonic()
    for step in range(checkpoints.restore(load), steps):
        optimizer.zero_grad()
        loss = worker.train(sequences, order, step)
        clip(model, 1.0)
        optimizer.step()
        scheduler.step()
        tokens += len(order.indices(step)) * config["length"]
        if checkpoints.due(step + 1, last=step + 1 == steps):
            metrics = {"loss": mean(loss), "epoch": (step + 1) / order.steps_per_epoch}
            metrics["tokens_per_second"] = tokens / (time.monotonic() - since)
            if validation:
                metrics["validation_loss"] = worker.evaluate(validation)
            checkpoints.save(step + 1, save, metrics)
            tokens, since = 0, time.monotonic()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_run_arguments(parser, batch=64, epochs=1)
    add_elastic_arguments(parser)
    parser.set_defaults(learning_rate=2e-5, micro_batch=1)
    parser.add_argument("--model", metavar="FOLDER", required=True, help="the Hugging Face model's folder")
    parser.add_argument(
        "--data", metavar="FILE", required=True, help='.jsonl ({"text": …} on each line), .npy (token ids) or text'
    )
    parser.add_argument("--validation", metavar="FILE", help="likewise; evaluated at each checkpoint")
    parser.add_argument("--length", type=positive, default=2048, help="tokens of a sequence (%(default)s)")
    parser.add_argument("--warmup", type=positive, default=10, help="steps with a rising learning rate (%(default)s)")
    parser.add_argument("--lora", type=positive, metavar="RANK", default=0, help="train adapters of this rank only")
    parser.add_argument("--fsdp", type=int, choices=(1, 2), default=0, help="version; default: 2 on GPUs, 1 on CPUs")
    parser.add_argument("--activation-checkpointing", action="store_true", help="compute activations again when needed")
    return parser


def memory_of(options: argparse.Namespace) -> Memory:
    return Memory(options.micro_batch, options.fsdp, options.activation_checkpointing)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program with a message if the model or the data cannot be used."""
    if options.keep_best and not options.validation:
        parser.error("--keep-best needs --validation")
    device = torch.device("cuda" if options.gpus else "cpu")
    # FSDP 1 does not shard for one worker, and then refuses frozen weights in the first step (PyTorch issue 151223).
    if options.lora and 1 in (options.workers, options.min_workers) and memory_of(options).version(device) == 1:
        parser.error("--lora under FSDP 1 needs at least two workers. Fix: --workers 2, or GPUs with FSDP 2 (--gpus)")
    try:
        Weights(options.model, skeleton(options.model, options.lora), options.seed)
        for file in filter(None, (options.data, options.validation)):
            with ray_resume.first_use(file, "read"):
                read_sequences(file, options.model, options.length)
    except (InvalidDataError, InvalidModelError, ray_resume.InvalidInputError) as error:
        parser.error(str(error))
    except ray_resume.RunFailedError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    check(parser, options)
    run = run_of(parser, options, "llm-finetune", metric="validation_loss")
    settings = {name: getattr(options, name) for name in SETTINGS}
    memory = memory_of(options)
    workers = ray_resume.workers(options.workers, cpus=options.cpus, gpu=options.gpus)
    elastic = elastic_of(options)
    ray_resume.main(
        run, functools.partial(train, memory), settings, workers, elastic=elastic, patience=options.patience
    )


if __name__ == "__main__":
    main()
