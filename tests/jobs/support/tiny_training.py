"""A tiny deterministic training through the documented public API only (torchrun's entry, one worker, no Ray)."""

import argparse
import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import torch

import ray_resume
from ray_resume import torch_state
from ray_resume.integrations import torchrun

torch.set_num_threads(1)


def train(config: dict[str, Any]) -> None:
    checkpoints = ray_resume.Checkpoints(config["run"])
    torch_state.seed_all(7)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    load = functools.partial(torch_state.load, model=model, optimizer=optimizer, rank=0, reseed=7)
    plain = functools.partial(torch_state.save, model=model, optimizer=optimizer, rank=0)
    full = int(os.environ.get("TINY_FULL_AT") or 0)

    def save(path: Path) -> None:
        if full and f"{full:09}@" in str(path):  # The disk is full in the middle of this write.
            (Path(path) / "half").write_bytes(b"x" * 1000)
            raise OSError(28, os.strerror(28), str(path))
        plain(path)

    def reading(path: Path) -> None:
        # Damage *between* verification and reading: the hook is a shell command, run just before the load.
        hook = os.environ.get("TINY_BEFORE_LOAD")
        if hook:
            subprocess.run(["/bin/sh", "-c", hook], check=True, env={**os.environ, "CKPT": str(path)})
        load(path)

    done = checkpoints.restore(reading)
    print(f"TINY start={done}", flush=True)
    stop = int(os.environ.get("TINY_STOP_AT", "0"))
    for step in range(done, config["steps"]):
        print(f"TINY step={step}", flush=True)
        optimizer.zero_grad()
        loss = model(torch.randn(8, 32)).square().mean()
        loss.backward()
        optimizer.step()
        if checkpoints.due(step + 1, last=step + 1 == config["steps"]):
            checkpoints.save(step + 1, save, {"loss": loss.item()})
            print(f"TINY saved={step + 1}", flush=True)
        if stop and step + 1 == stop:
            os._exit(99)  # A kill: no clean-up, no DONE.json.
    out = Path(os.environ["TINY_OUT"])
    out.write_bytes(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--keep", type=int, default=3)
    args = parser.parse_args()
    try:
        run = ray_resume.Run.from_environment("tiny", None, every=args.every, keep=ray_resume.Keep(args.keep or None))
    except ray_resume.InvalidInputError as error:  # As docs/reference/job-library.md tells a script to do.
        parser.error(str(error))
    torchrun.main(run, train, {"steps": args.steps})
