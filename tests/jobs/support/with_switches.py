"""Run an example of ray_jobs with the switches for equal bits: its arguments, then its name.

The switches are in docs/reference/job-library.md.
"""

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import ray_resume


def _exactly(train: Callable[[dict[str, Any]], None], config: dict[str, Any]) -> None:
    torch.use_deterministic_algorithms(True)
    train(config)


def main() -> None:
    start = ray_resume.main
    ray_resume.main = lambda run, train, *rest, **more: start(run, partial(_exactly, train), *rest, **more)
    name = sys.argv.pop()
    importlib.import_module(name).main()


if __name__ == "__main__":
    main()
