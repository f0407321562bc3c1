"""A small training in each framework of ray_resume.integrations, whose last worker kills itself at chosen steps."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any, Final

import ray.train
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ray_resume
from ray_resume import torch_state

EPOCHS: Final = 3
STEPS: Final = 8
"""Steps of an epoch."""
EVERY: Final = 4
KILLS: Final = {5: 4, 9: 8, 14: 12}
"""Before which steps a worker is killed, and from which step the run resumes: in the first epoch, at its end, and in
the second."""
BATCH: Final = 4
SEED: Final = 7


def train(config: dict[str, Any]) -> None:
    """Train in one worker; worker 0 leaves its final weights in the storage, each worker the samples that it saw."""
    torch.set_num_threads(1)
    # Not seed + rank: the first weights are the same at all workers.
    torch_state.seed_all(SEED)
    checkpoints = ray_resume.Checkpoints(config["run"])
    weights = TRAININGS[config["framework"]](checkpoints, partial(strike, config), config)
    if rank() == 0:
        torch.save({name: one.detach().clone() for name, one in weights.items()}, Path(config["run"].storage, "result"))


def rank() -> int:
    found: int = ray.train.get_context().get_world_rank()
    return found


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def strike(config: dict[str, Any], step: int, taken: torch.Tensor) -> None:
    """Note the samples of a batch of a step; kill this process before the step, once for each step."""
    with Path(config["run"].storage, f"samples-{rank()}-{config['run'].attempt}").open("a") as file:
        file.write(f"{step} {' '.join(map(str, taken.tolist()))}\n")
    mark = Path(config["run"].storage, f"killed before {step}")
    if step in config["kills"] and rank() == world() - 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def seen(storage: Path) -> dict[int, dict[int, list[int]]]:
    """Return the samples that each worker took in each step of the result: a repeated step counts once."""
    steps: dict[int, dict[int, list[int]]] = {}
    for file in sorted(storage.glob("samples-*"), key=lambda file: int(file.name.rpartition("-")[2])):
        own: dict[int, list[int]] = {}
        for line in file.read_text().splitlines():
            step, *taken = map(int, line.split())
            own.setdefault(step, []).extend(taken)
        for step, samples_ in own.items():
            steps.setdefault(step, {})[int(file.name.split("-")[1])] = samples_
    return steps


def number() -> int:
    return STEPS * BATCH * world()


def samples() -> TensorDataset:
    inputs = torch.randn(number(), 8, generator=torch.Generator().manual_seed(1))
    return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).tanh(), torch.arange(number()))


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))


def loader(config: dict[str, Any]) -> DataLoader[Any]:
    """Return a loader of the samples; `accumulate` of its batches make a step."""
    size = BATCH // config["accumulate"]
    return DataLoader(samples(), batch_size=size, shuffle=True, num_workers=config["loaders"])


def decayed(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.ExponentialLR:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def train_lightning(
    checkpoints: ray_resume.Checkpoints, before: Any, config: dict[str, Any]
) -> dict[str, torch.Tensor]:
    import pytorch_lightning as pl
    from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment

    from ray_resume.integrations.lightning import Resume

    class Module(pl.LightningModule):  # type: ignore[misc]  # Lightning is in the jobs' environment only
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def training_step(self, batch: Any) -> torch.Tensor:
            inputs, targets, taken = batch
            before(self.global_step, taken)
            return nn.functional.mse_loss(self.network(inputs), targets)

        def validation_step(self, batch: Any) -> None:
            inputs, targets, _ = batch
            self.log("error", nn.functional.mse_loss(self.network(inputs), targets), sync_dist=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            return [optimizer], [{"scheduler": decayed(optimizer), "interval": "step"}]

    resume = Resume(checkpoints)
    distributed = {"strategy": RayDDPStrategy(), "plugins": [RayLightningEnvironment()]} if world() > 1 else {}
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=1,
        callbacks=[resume],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=config["accumulate"],
        **distributed,
    )
    module = Module()
    resume.fit(trainer, module, loader(config), DataLoader(samples(), batch_size=BATCH))
    return dict(module.network.state_dict())


def train_transformers(
    checkpoints: ray_resume.Checkpoints, before: Any, config: dict[str, Any]
) -> dict[str, torch.Tensor]:
    from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

    from ray_resume.integrations.transformers import ResumingTrainer

    words = torch.randint(3, 60, (number(), 6), generator=torch.Generator().manual_seed(1))
    known = {tuple(one.tolist()): index for index, one in enumerate(words)}

    class Noting(ResumingTrainer):
        def training_step(self, model: Any, inputs: Any, *rest: Any) -> Any:
            taken = torch.tensor([known[tuple(one.tolist())] for one in inputs["input_ids"]])
            before(self.state.global_step, taken)
            return super().training_step(model, inputs, *rest)

    data = [{"input_ids": one, "labels": one.sum() % 2} for one in words]
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    trainer = Noting(
        checkpoints,
        BertForSequenceClassification(BertConfig(vocab_size=64, num_labels=2, **size)),
        TrainingArguments(
            output_dir="trainer",
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH // config["accumulate"],
            gradient_accumulation_steps=config["accumulate"],
            dataloader_num_workers=config["loaders"],
            eval_strategy="epoch",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            seed=SEED,
            learning_rate=0.01,
            logging_steps=2,
        ),
        train_dataset=data,
        eval_dataset=data[:BATCH],
    )
    trainer.train()
    return dict(trainer.model.state_dict())


def train_accelerate(
    checkpoints: ray_resume.Checkpoints, before: Any, config: dict[str, Any]
) -> dict[str, torch.Tensor]:
    from accelerate import Accelerator, DataLoaderConfiguration

    from ray_resume.integrations.accelerate import Resume

    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=config["accumulate"],
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
    )
    plain = network()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    model, optimizer, batches, scheduler = accelerator.prepare(plain, optimizer, loader(config), decayed(optimizer))
    resume = Resume(checkpoints, accelerator)
    for inputs, targets, taken in resume.batches(batches, EPOCHS):
        before(resume.step, taken)
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        resume.after_batch({"loss": loss})
    return dict(plain.state_dict())


def train_deepspeed(
    checkpoints: ray_resume.Checkpoints, before: Any, config: dict[str, Any]
) -> dict[str, torch.Tensor]:
    import deepspeed

    from ray_resume.integrations import deepspeed as deepspeed_state

    # On CPUs, DeepSpeed would compile its own collectives in shared memory for minutes; gloo does the same.
    deepspeed.ops.__compatible_ops__ = {}
    settings = {
        "train_micro_batch_size_per_gpu": BATCH // config["accumulate"],
        "gradient_accumulation_steps": config["accumulate"],
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 20}},
        "zero_optimization": {"stage": 2},
    }
    plain, data = network(), samples()
    engine, *_ = deepspeed.initialize(model=plain, model_parameters=plain.parameters(), config=settings)
    order = checkpoints.data_order(len(data), BATCH * world(), SEED)
    load = partial(deepspeed_state.load, engine=engine, reseed=SEED)
    save = partial(deepspeed_state.save, engine=engine)
    for step in range(checkpoints.restore(load), EPOCHS * STEPS):
        for indices, _ in order.pieces(step, rank(), world(), BATCH // config["accumulate"]):
            inputs, targets, taken = data[indices]
            before(step, taken)
            loss = nn.functional.mse_loss(engine(inputs), targets)
            engine.backward(loss)
            engine.step()
        if checkpoints.due(step + 1):
            checkpoints.save(step + 1, save, {"loss": loss})
    return dict(plain.state_dict())


TRAININGS: Final = {
    "lightning": train_lightning,
    "transformers": train_transformers,
    "accelerate": train_accelerate,
    "deepspeed": train_deepspeed,
}
