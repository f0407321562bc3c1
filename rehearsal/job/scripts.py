"""The scripts that the job's rehearsal submits."""

from typing import Final

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

PACED: Final = f'''import time
from pathlib import Path

import pytorch_ddp
import ray_resume

example = pytorch_ddp.train


class Paced(ray_resume.Checkpoints):
    def due(self, step, *, last=False):
        if self.pace.exists():
            time.sleep(1)
        return super().due(step, last=last)


def train(config):
    Paced.pace = Path(config["run"].storage).parent / "{PACE}"
    ray_resume.Checkpoints = Paced
    example(config)


if __name__ == "__main__":
    pytorch_ddp.train = train
    pytorch_ddp.main()
'''
"""The example `pytorch_ddp`, whose steps take a second each while the file PACE exists.

What happens to the run is waited for, and on a slow machine that takes minutes: the training must not end before.
"""
