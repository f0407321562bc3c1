"""Small trainings for tests of saving and resuming: one kind of model each, plain or in a wrapper of PyTorch's.

Every training is a function of its step only, so that a resumed one can be compared bit by bit.
"""

from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ray_resume import torch_state
from ray_resume.saving import Rest

WRAPPERS: Final = ("plain", "ddp", "fsdp")
HALF: Final = 3
"""The step after which a training is saved."""
LATE: Final = 4
"""The step at which the parameters of `_Late` get their first gradient."""
THAWED: Final = 1
"""The step from which the parameters of `thawed` are trained."""


class _Usual(nn.Module):  # type: ignore[misc]  # torch is in the jobs' environment only
    def __init__(self) -> None:
        super().__init__()
        self.first, self.dropout, self.last = nn.Linear(4, 9), nn.Dropout(0.3), nn.Linear(9, 4)

    def forward(self, inputs: torch.Tensor, step: int) -> torch.Tensor:  # noqa: ARG002 (`_Late` uses it)
        return self.last(self.dropout(self.first(inputs)))


class _Unused(_Usual):
    """Has a layer that no step uses, like a pooler or an expert to which nothing is routed."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(4, 4)


class _Late(_Unused):
    """Uses the layer from step LATE on."""

    def forward(self, inputs: torch.Tensor, step: int) -> torch.Tensor:
        outputs = super().forward(inputs, step)
        return outputs if step < LATE else outputs + self.unused(inputs)


class _Tied(_Usual):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.Linear(4, 9, bias=False)
        self.decoder.weight = self.first.weight

    def forward(self, inputs: torch.Tensor, step: int) -> torch.Tensor:
        return super().forward(inputs, step) @ self.decoder.weight.T


class _Adapted(_Usual):
    """Has adapters of low rank, beside frozen layers."""

    def __init__(self) -> None:
        # Seconds, for this model only.
        from peft import LoraConfig, inject_adapter_in_model

        super().__init__()
        inject_adapter_in_model(LoraConfig(r=2, lora_dropout=0.2, target_modules=["first", "last"]), self)


class Training:
    """A model with its optimizer, and what else must be saved; `step` trains one step."""

    model: type[_Usual] = _Usual
    frozen = True
    """Whether the frozen parameters are saved, too."""

    def __init__(self, wrapper: str, device: str) -> None:
        torch_state.seed_all(3)
        self.device = torch.device(device)
        self.bare = self.model().to(self.device)
        self.wrapped = wrap(self.bare, wrapper, self.device)
        trained = [one for one in self.wrapped.parameters() if one.requires_grad]
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(trained, lr=0.1)
        self.extra: dict[str, Any] = {}

    def step(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.loss(step).backward()
        self.optimizer.step()

    def loss(self, step: int) -> torch.Tensor:
        return self.wrapped(self.inputs(step), step).float().square().mean()

    def inputs(self, step: int) -> torch.Tensor:
        return torch.full((2, 4), float(step + 1), device=self.device)

    def save(self, directory: Path, rank: int) -> None:
        torch_state.save(directory, self.wrapped, self.optimizer, **self._saved(rank))

    def async_save(self, directory: Path, rank: int) -> Rest:
        return torch_state.async_save(directory, self.wrapped, self.optimizer, **self._saved(rank))

    def load(self, directory: Path, rank: int) -> None:
        torch_state.load(directory, self.wrapped, self.optimizer, reseed=1, **self._saved(rank))

    def _saved(self, rank: int) -> dict[str, Any]:
        return {"rank": rank, "extra": self.extra, "frozen": self.frozen}

    def result(self) -> list[torch.Tensor]:
        """Return all numbers that must be equal: the weights, the optimizer's state and what the extra objects hold."""
        weights = [parameter.detach().cpu() for parameter in self.wrapped.parameters()]
        states = [self.optimizer.state.get(one) for group in self.optimizer.param_groups for one in group["params"]]
        numbers = [
            torch.as_tensor(state[key]).detach().cpu() if state else torch.tensor([])
            for state in states
            for key in sorted(state or ["none"])
        ]
        rates = [torch.tensor(group["lr"]) for group in self.optimizer.param_groups]
        return weights + numbers + rates


class Unused(Training):
    model = _Unused


class Late(Training):
    model = _Late


class Tied(Training):
    model = _Tied


class Adapted(Training):
    """Trains and saves its adapters only."""

    model = _Adapted
    frozen = False


class Thawed(Training):
    """Trains the first layer from step THAWED on."""

    def __init__(self, wrapper: str, device: str) -> None:
        super().__init__(wrapper, device)
        self._first = [one for name, one in self.wrapped.named_parameters() if "first" in name]
        self._train(trains=False)

    def step(self, step: int) -> None:
        if step == THAWED:
            self._train(trains=True)
        super().step(step)

    def load(self, directory: Path, rank: int) -> None:
        super().load(directory, rank)
        self._train(trains=True)

    def _train(self, *, trains: bool) -> None:
        for one in self._first:
            one.requires_grad_(trains)


class Scheduled(Training):
    """Has a scheduler of two phases, whose state holds other schedulers."""

    def __init__(self, wrapper: str, device: str) -> None:
        super().__init__(wrapper, device)
        schedulers = torch.optim.lr_scheduler
        self.scheduler = schedulers.SequentialLR(
            self.optimizer,
            [
                schedulers.LinearLR(self.optimizer, 0.1, total_iters=2),
                schedulers.MultiStepLR(self.optimizer, [2, 3]),
            ],
            [2],
        )
        self.extra = {"scheduler": self.scheduler}

    def step(self, step: int) -> None:
        super().step(step)
        self.scheduler.step()


class Scaled(Training):
    """Scales its loss, by a number that grows every second step."""

    def __init__(self, wrapper: str, device: str) -> None:
        super().__init__(wrapper, device)
        self.scaler = torch.amp.GradScaler(self.device.type, init_scale=8.0, growth_interval=2)
        self.extra = {"scaler": self.scaler}

    def step(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.scaler.scale(self.loss(step)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def result(self) -> list[torch.Tensor]:
        return [*super().result(), torch.tensor(self.scaler.get_scale())]


class Averaged(Training):
    """Keeps the exponential moving average of its weights, in parts under FSDP."""

    def __init__(self, wrapper: str, device: str) -> None:
        super().__init__(wrapper, device)
        if wrapper == "fsdp":
            torch_state.seed_all(3)
            self.ema = AveragedModel(self.model().to(self.device), multi_avg_fn=get_ema_multi_avg_fn(0.9))
            self.ema.module = wrap(self.ema.module, wrapper, self.device)
        else:
            self.ema = AveragedModel(self.bare, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.extra = {"ema": self.ema}

    def step(self, step: int) -> None:
        super().step(step)
        self.ema.update_parameters(
            self.bare if not isinstance(self.wrapped, FullyShardedDataParallel) else self.wrapped
        )

    def result(self) -> list[torch.Tensor]:
        return [*super().result(), *(one.detach().cpu() for one in self.ema.parameters()), self.ema.n_averaged.cpu()]


class TwoModels(Training):
    """Trains two models against each other, each with an optimizer of its own; the second begins later."""

    def __init__(self, wrapper: str, device: str) -> None:
        super().__init__(wrapper, device)
        self.other = Training(wrapper, device)

    def step(self, step: int) -> None:
        super().step(step)
        if step >= LATE:
            self.other.step(step)

    def save(self, directory: Path, rank: int) -> None:
        super().save(directory / "one", rank)
        self.other.save(directory / "other", rank)

    def async_save(self, directory: Path, rank: int) -> Rest:
        one, other = super().async_save(directory / "one", rank), self.other.async_save(directory / "other", rank)

        def write(group: dist.ProcessGroup | None) -> None:
            one(group)
            other(group)

        return write

    def load(self, directory: Path, rank: int) -> None:
        super().load(directory / "one", rank)
        self.other.load(directory / "other", rank)

    def result(self) -> list[torch.Tensor]:
        return [*super().result(), *self.other.result()]


TRAININGS: Final[dict[str, type[Training]]] = {
    "usual": Training,
    "unused parameters": Unused,
    "late gradients": Late,
    "tied weights": Tied,
    "thawed layer": Thawed,
    "scheduler": Scheduled,
    "gradient scaler": Scaled,
    "moving average": Averaged,
    "two models": TwoModels,
    "LoRA": Adapted,
}


def wrap(model: nn.Module, wrapper: str, device: torch.device) -> nn.Module:
    """Return the model in its wrapper; with bf16 under FSDP on a GPU."""
    if wrapper == "ddp":
        return DistributedDataParallel(model, find_unused_parameters=True)
    if wrapper == "fsdp":
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        half = MixedPrecision(param_dtype=torch.bfloat16) if device.type == "cuda" else None
        shard = partial(
            FullyShardedDataParallel, device_mesh=mesh, device_id=device, use_orig_params=True, mixed_precision=half
        )
        if hasattr(model, "unused"):
            # In a unit of its own: the parameters of a unit have gradients together.
            model.unused = shard(model.unused)
        return shard(model)
    return model


def resume(rank: int, directory: Path, kind: str, wrapper: str, device: str = "cpu") -> None:
    """Train without saving, save half-way in both ways, load both and train on: all must end with equal bits."""
    copied = directory.with_name(f"{directory.name}-copied")
    results = {}
    for name in ("is not saved", "is saved", "is copied"):
        training = TRAININGS[kind](wrapper, device)
        torch_state.seed_all(100 + rank)
        _train(training, range(HALF))
        if name == "is saved":
            training.save(directory, rank)
        rest = training.async_save(copied, rank) if name == "is copied" else None
        _train(training, range(HALF, 2 * HALF))
        results[name] = training.result()
        if rest:
            # After all other steps: none may change what was copied.
            rest(dist.new_group(backend="gloo"))
    for folder in (directory, copied):
        resumed = TRAININGS[kind](wrapper, device)
        resumed.load(folder, rank)
        _train(resumed, range(HALF, 2 * HALF))
        results[f"resumes from {folder.name}"] = resumed.result()
    for name, result in results.items():
        same = [torch.equal(one, other) for one, other in zip(results["is not saved"], result, strict=True)]
        assert all(same), f"the training that {name} ends with other numbers: {same}"


def _train(training: Training, steps: range) -> None:
    for step in steps:
        training.step(step)
