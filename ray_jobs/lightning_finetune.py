"""Fine-tune a text classifier with PyTorch Lightning and FSDP on Ray Train: the walkthrough's job, and it resumes.

It takes the arguments of fsdp_finetune.py, with the same defaults, and downloads nothing either. Checkpoints at the end
of an epoch have the metric matthews_correlation with --validation.

    python lightning_finetune.py --storage /fsx/ray/runs --gpus --workers 4 --batch 256 --epochs 5 \\
        --learning-rate 1e-5 --model /fsx/ray/models/bert --data /fsx/ray/data/cola.tsv
"""

from __future__ import annotations

import functools
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from ray.train.lightning import RayDDPStrategy, RayFSDPStrategy, RayLightningEnvironment, prepare_trainer
from ray.train.torch import get_device
from torch import nn
from torch.distributed.fsdp import BackwardPrefetch
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassMatthewsCorrCoef

import ray_resume
from fsdp_finetune import classifier, main, sentences_of
from ray_resume import torch_state
from ray_resume.integrations.lightning import Resume, load_weights
from text_data import Sentences, Tokens, read_sentences

Batch = tuple[Tokens, torch.Tensor]


class SentenceClassifier(pl.LightningModule):  # type: ignore[misc]  # Lightning is in the jobs' environment only
    """A classifier of sentences, and how it is trained."""

    def __init__(self, model: nn.Module, labels: int, learning_rate: float) -> None:
        super().__init__()
        self.model = model
        self.learning_rate = learning_rate
        self.correlation = MulticlassMatthewsCorrCoef(num_classes=max(labels, 2))

    def training_step(self, batch: Batch) -> torch.Tensor:
        inputs, labels = batch
        loss = nn.functional.cross_entropy(self.model(*inputs).float(), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Batch) -> None:
        inputs, labels = batch
        self.correlation.update(self.model(*inputs), labels)

    def on_validation_epoch_end(self) -> None:
        self.log("matthews_correlation", self.correlation.compute())
        self.correlation.reset()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate, eps=1e-8)


def train(config: dict[str, Any]) -> None:
    """Train in one worker; Ray Train calls it in each."""
    checkpoints = ray_resume.Checkpoints(config["run"])
    sentences = sentences_of(config)
    module = SentenceClassifier(
        classifier(config, sentences.label_count), sentences.label_count, config["learning_rate"]
    )
    resume = Resume(checkpoints, functools.partial(load_weights, module=module))
    trainer = _trainer(config, resume, gpu=get_device().type == "cuda")
    # Each worker drops out different neurons.
    torch_state.seed_all(config["seed"] + 1 + dist.get_rank())
    batch = max(1, config["batch"] // dist.get_world_size())
    loaders = [_loader(sentences, batch, shuffle=True)]
    if config["validation"]:
        loaders.append(_loader(read_sentences(config["validation"], config["model"]), batch, shuffle=False))
    resume.fit(prepare_trainer(trainer), module, *loaders)


def _trainer(config: dict[str, Any], resume: Resume, *, gpu: bool) -> pl.Trainer:
    return pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="gpu" if gpu else "cpu",
        devices="auto" if gpu else 1,
        precision="bf16-mixed" if gpu else "32-true",
        strategy=_strategy(config, gpu=gpu),
        plugins=[RayLightningEnvironment()],
        callbacks=[resume],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _strategy(config: dict[str, Any], *, gpu: bool) -> RayDDPStrategy | RayFSDPStrategy:
    if not gpu:
        # Lightning's FSDP takes no CPUs.
        return RayDDPStrategy()
    return RayFSDPStrategy(
        sharding_strategy="FULL_SHARD",
        # Each worker writes its own part.
        state_dict_type="sharded",
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
        forward_prefetch=True,
        limit_all_gathers=True,
        cpu_offload=config["cpu_offload"],
    )


def _loader(sentences: Sentences, batch: int, *, shuffle: bool) -> DataLoader[int]:
    """Return a loader of sentences by their indices, which Lightning divides among the workers."""
    tokens = functools.partial(sentences.batch, device=torch.device("cpu"))
    return DataLoader(range(len(sentences.labels)), batch_size=batch, shuffle=shuffle, collate_fn=tokens)


if __name__ == "__main__":
    main(train, "lightning-finetune", __doc__)
