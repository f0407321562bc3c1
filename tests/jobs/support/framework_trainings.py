"""A small training in each framework of ray_resume.integrations, whose worker kills itself at chosen steps.

python framework_trainings.py --framework lightning --storage /fsx/ray/runs
"""

from __future__ import annotations

import argparse
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
"""Before which steps a worker is killed, and from which step the run resumes: within an epoch, and between two."""
BATCH: Final = 4
SEED: Final = 7


def train(config: dict[str, Any]) -> None:
    """Train in one worker; worker 0 leaves its final weights in the storage."""
    torch.set_num_threads(1)
    # Not seed + rank: the first weights are the same at all workers.
    torch_state.seed_all(SEED)
    checkpoints = ray_resume.Checkpoints(config["run"])
    weights = TRAININGS[config["framework"]](checkpoints, partial(strike, config))
    if rank() == 0:
        torch.save({name: one.detach().clone() for name, one in weights.items()}, Path(config["run"].storage, "result"))


def rank() -> int:
    found: int = ray.train.get_context().get_world_rank()
    return found


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def strike(config: dict[str, Any], step: int) -> None:
    """Kill this process before a step, once for each step."""
    mark = Path(config["run"].storage, f"killed before {step}")
    if step in config["kills"] and rank() == world() - 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def samples() -> TensorDataset:
    number = STEPS * BATCH * world()
    inputs = torch.randn(number, 8, generator=torch.Generator().manual_seed(1))
    return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).tanh())


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))


def decayed(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.ExponentialLR:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def train_lightning(checkpoints: ray_resume.Checkpoints, before: Any) -> dict[str, torch.Tensor]:
    import pytorch_lightning as pl
    from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment
    from torchdata.stateful_dataloader import StatefulDataLoader

    from ray_resume.integrations.lightning import Resume

    class Module(pl.LightningModule):  # type: ignore[misc]  # Lightning is in the jobs' environment only
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def training_step(self, batch: Any) -> torch.Tensor:
            before(self.global_step)
            inputs, targets = batch
            return nn.functional.mse_loss(self.network(inputs), targets)

        def validation_step(self, batch: Any) -> None:
            inputs, targets = batch
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
        **distributed,
    )
    module = Module()
    resume.fit(
        trainer,
        module,
        StatefulDataLoader(samples(), batch_size=BATCH, shuffle=True),
        DataLoader(samples(), batch_size=BATCH),
    )
    return dict(module.network.state_dict())


def train_transformers(checkpoints: ray_resume.Checkpoints, before: Any) -> dict[str, torch.Tensor]:
    from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

    from ray_resume.integrations.transformers import ResumingTrainer

    class Before(TrainerCallback):  # type: ignore[misc]  # transformers is in the jobs' environment only
        def on_step_begin(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            before(state.global_step)

    number = STEPS * BATCH * world()
    words = torch.randint(3, 60, (number, 6), generator=torch.Generator().manual_seed(1))
    data = [{"input_ids": one, "labels": one.sum() % 2} for one in words]
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    trainer = ResumingTrainer(
        checkpoints,
        BertForSequenceClassification(BertConfig(vocab_size=64, num_labels=2, **size)),
        TrainingArguments(
            output_dir="trainer",
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
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
        callbacks=[Before()],
    )
    trainer.train()
    return dict(trainer.model.state_dict())


def train_accelerate(checkpoints: ray_resume.Checkpoints, before: Any) -> dict[str, torch.Tensor]:
    from accelerate import Accelerator, DataLoaderConfiguration

    from ray_resume.integrations.accelerate import Resume

    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=2,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
    )
    plain = network()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    # Two batches make a step.
    loader = DataLoader(samples(), batch_size=BATCH // 2, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(plain, optimizer, loader, decayed(optimizer))
    resume = Resume(checkpoints, accelerator)
    for inputs, targets in resume.batches(loader, EPOCHS):
        before(resume.step)
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        resume.after_batch({"loss": loss})
    return dict(plain.state_dict())


def train_deepspeed(checkpoints: ray_resume.Checkpoints, before: Any) -> dict[str, torch.Tensor]:
    import deepspeed

    from ray_resume.integrations import deepspeed as deepspeed_state

    # On CPUs, DeepSpeed would compile its own collectives in shared memory for minutes; gloo does the same.
    deepspeed.ops.__compatible_ops__ = {}
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
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
        before(step)
        [(indices, _)] = order.pieces(step, rank(), world(), BATCH)
        inputs, targets = data[indices]
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", required=True)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--kill", type=int, action="append", default=[])
    options = parser.parse_args()
    run = ray_resume.Run.from_environment("job", options.storage, every=EVERY)
    # Not as settings, which must stay the same.
    loop = partial(_train, framework=options.framework, kills=options.kill)
    ray_resume.main(run, loop, {}, ray_resume.workers(2))


def _train(config: dict[str, Any], **more: Any) -> None:
    train({**config, **more})


if __name__ == "__main__":
    main()
