"""A training for torchrun with the library ray_resume, without Ray.

`training.py STEPS EVERY HOLD`: it waits at step HOLD as long as the file `hold` lies beside the run's folder. It ends
with a file `model.pt` in the run's folder.
"""

import functools
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import ray_resume
from ray_resume import torch_state
from ray_resume.integrations import torchrun


def train(config: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    checkpoints, rank = ray_resume.Checkpoints(config["run"]), dist.get_rank()
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    save = functools.partial(torch_state.save, model=model, optimizer=optimizer, rank=rank)
    load = functools.partial(torch_state.load, model=model, optimizer=optimizer, rank=rank, reseed=100 + rank)
    torch.manual_seed(100 + rank)
    begin, steps = checkpoints.restore(load), config["steps"]
    print(f"rank {rank} begins at step {begin}", flush=True)
    for step in range(begin + 1, steps + 1):
        while step == config["hold"] and (folder().parent / "hold").exists():
            time.sleep(0.1)
        features = torch.randn(8, 16)
        loss = (model(features) - features.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if checkpoints.due(step, last=step == steps):
            checkpoints.save(step, save, {"step": step, "loss": loss.item()})
    if rank == 0:
        torch.save(model.state_dict(), folder() / "model.pt")


def folder() -> Path:
    return Path(os.environ["RUN_STORAGE"], os.environ["RUN_NAME"])


if __name__ == "__main__":
    steps, every, hold = map(int, sys.argv[1:])
    run = ray_resume.Run.from_environment("torch", None, every=every)
    torchrun.main(run, train, {"steps": steps, "hold": hold})
