"""The arguments that all training examples share."""

from __future__ import annotations

import argparse

from ray.train import CheckpointConfig

import ray_resume
from ray_resume.elastic.sizes import WAIT
from ray_resume.watchdog import PATIENCE


def add_run_arguments(parser: argparse.ArgumentParser, *, batch: int, epochs: int) -> None:
    """Add the shared arguments with an example's defaults."""
    parser.add_argument("--name", help="the run's name; RUN_NAME overrides it")
    parser.add_argument(
        "--storage",
        metavar="PATH",
        help="where runs are kept: a path that every node sees, or s3://…; RUN_STORAGE overrides it",
    )
    parser.add_argument("--workers", type=positive, default=2, help="how many workers train (%(default)s)")
    parser.add_argument("--gpus", action="store_true", help="each worker has a GPU of its own")
    parser.add_argument("--cpus", type=float, default=1, help="CPUs of each worker (%(default)s)")
    parser.add_argument("--batch", type=positive, default=batch, help="samples in a global batch (%(default)s)")
    parser.add_argument("--micro-batch", type=positive, default=8, help="samples of a worker at a time (%(default)s)")
    parser.add_argument("--epochs", type=positive, default=epochs, help="may grow later (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--every", type=positive, default=10, help="steps between two checkpoints (%(default)s)")
    parser.add_argument("--keep", type=positive, default=2, help="how many checkpoints to keep (%(default)s)")
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=positive,
        default=round(PATIENCE),
        help="end an attempt that has stalled for so long; must exceed the longest step and the start of the workers, "
        "not the wait for resources (%(default)s)",
    )
    parser.add_argument(
        "--warm-from",
        metavar="RUN",
        help="start with the weights of this run's newest checkpoint: its name in the same storage, or its folder",
    )
    parser.add_argument(
        "--keep-best",
        action="store_true",
        help="keep those with the best metric (loss, unless it is validated), not the newest",
    )


def run_of(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    default_name: str,
    *,
    metric: str = "loss",
    best: str = "min",
) -> ray_resume.Run:
    """Return the run that the arguments and the environment name; end the program with a message if that fails.

    With --keep-best, the checkpoints with the best `metric` stay: `best` is "min" or "max".
    """
    score = {"checkpoint_score_attribute": metric, "checkpoint_score_order": best} if options.keep_best else {}
    keep = CheckpointConfig(num_to_keep=options.keep, **score)
    try:
        return ray_resume.Run.from_environment(
            options.name or default_name, options.storage, every=options.every, keep=keep, warm_from=options.warm_from
        )
    except ray_resume.InvalidInputError as error:
        parser.error(str(error))
    except ray_resume.RunFailedError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def add_elastic_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a training whose number of workers may change."""
    parser.add_argument(
        "--min-workers",
        metavar="WORKERS",
        type=positive,
        help="continue with so few if there are no resources for --workers; only numbers that divide --batch are used "
        "(default: always --workers)",
    )
    parser.add_argument(
        "--wait-for-workers",
        metavar="SECONDS",
        type=positive,
        default=round(WAIT),
        help="how long to wait for resources for --workers before fewer continue (%(default)s)",
    )


def elastic_of(options: argparse.Namespace) -> ray_resume.Elastic:
    """Return with how few workers the run may continue."""
    return ray_resume.Elastic(options.min_workers, options.batch, options.wait_for_workers)


def positive(text: str) -> int:
    """Return an argument's text as a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is invalid. Allowed: whole numbers from 1")
    return int(text)
