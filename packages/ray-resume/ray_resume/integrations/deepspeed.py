"""DeepSpeed: an engine's state in the run's checkpoints, each worker's part by itself.

engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
load = functools.partial(deepspeed_state.load, engine=engine, reseed=7 + rank)
save = functools.partial(deepspeed_state.save, engine=engine)
for step in range(checkpoints.restore(load), steps):
    ...
    if checkpoints.due(step + 1):
        checkpoints.save(step + 1, save, {"loss": loss})
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from ray_resume import generators
from ray_resume.integrations.packages import needing
from ray_resume.torch_state import Stateful

with needing("DeepSpeed", "deepspeed"):
    from deepspeed import DeepSpeedEngine

__all__ = ["load", "load_weights", "save"]

_TAG: Final = "deepspeed"
_EXTRA: Final = "extra"


def save(directory: Path, engine: DeepSpeedEngine, *, extra: Mapping[str, Stateful] | None = None) -> None:
    """Write this worker's part of the engine's state, and its generators; all workers call it together.

    Args:
        extra: other objects to save, by name, such as a scheduler that the engine does not have. Worker 0's state is
            saved: it must be the same at all workers.
    """
    states = {name: one.state_dict() for name, one in (extra or {}).items()}
    # Each worker has a directory of its own, and DeepSpeed makes only that of worker 0.
    engine.save_checkpoint(str(directory), tag=_TAG, client_state={_EXTRA: states}, save_latest=False)
    torch.save(generators.state(), directory / generators.file_of(engine.global_rank))


def load(directory: Path, engine: DeepSpeedEngine, *, reseed: int, extra: Mapping[str, Stateful] | None = None) -> None:
    """Read what `save` wrote, into the engine and `extra`; all workers call it together.

    A worker without generators in the checkpoint (there are more workers now) starts with seed `reseed`.

    Raises:
        OSError: the engine found no state of its own in the checkpoint.
    """
    states = _load(directory, engine)[_EXTRA]
    for name, one in (extra or {}).items():
        one.load_state_dict(states[name])
    drawn = directory / generators.file_of(engine.global_rank)
    if drawn.exists():
        generators.restore(torch.load(drawn, weights_only=False))
    else:
        generators.seed_all(reseed)


def load_weights(directory: Path, engine: DeepSpeedEngine) -> None:
    """Read only the model's weights: to start another training. All workers call it together."""
    _load(directory, engine, load_module_only=True)


def _load(directory: Path, engine: DeepSpeedEngine, **words: Any) -> dict[str, Any]:
    found, client = engine.load_checkpoint(str(directory), tag=_TAG, **words)
    if found is None:
        raise OSError(f"DeepSpeed found no state in {directory}. Fix: use the settings with which the run began")
    state: dict[str, Any] = client
    return state
