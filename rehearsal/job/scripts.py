"""The scripts that the job's rehearsal submits."""

from pathlib import Path
from typing import Final, NamedTuple

OWN: Final = """import os
import ray

@ray.remote
def square(number):
    return number * number

ray.init()
print(os.environ["RUN_NAME"], "got", sum(ray.get([square.remote(number) for number in range(4)])))
"""
"""A user's own script, without the library."""

PACE: Final = "paced"
"""The file beside the folder of the runs that makes PACED slow."""

STEPS: Final = ".steps"
"""The end of a file's name beside PACE: what PACED writes, named after its run."""

PACED: Final = f'''import time
from pathlib import Path

import pytorch_ddp
import ray
import ray_resume
import torch

example = pytorch_ddp.train


class Paced(ray_resume.Checkpoints):
    def due(self, step, *, last=False):
        with self.record.open("a") as record:
            record.write(f"{{time.time()}} {{step}} {{ray.__version__}} {{torch.__version__}}\\n")
        if self.pace.exists():
            time.sleep(1)
        return super().due(step, last=last)


def train(config):
    run = config["run"]
    Paced.pace = Path(run.storage).parent / "{PACE}"
    Paced.record = Path(run.storage).parent / f"{{run.name}}{STEPS}"
    ray_resume.Checkpoints = Paced
    # Another PyTorch draws another mask from the same seed.
    pytorch_ddp.nn.Dropout = torch.nn.Identity
    example(config)


if __name__ == "__main__":
    pytorch_ddp.train = train
    pytorch_ddp.main()
'''
"""The example `pytorch_ddp`, whose steps take a second each while the file PACE exists.

It records each worker's steps. What happens to the run is waited for, and on a slow machine that takes minutes: the
training must not end before.
"""


class TrainingStep(NamedTuple):
    """A step that a worker of PACED has taken, and with what."""

    at: float
    """Seconds since the epoch."""
    step: int
    ray: str
    torch: str


def steps_of(file: Path) -> list[TrainingStep]:
    """Return the steps that PACED recorded, in their order; none without the file."""
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return sorted(TrainingStep(float(at), int(step), ray, torch) for at, step, ray, torch in lines)
