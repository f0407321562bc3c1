"""Estimate size and time of a training's checkpoints on the environment's file system."""

from typing import Final, NamedTuple

from config.model import Environment

# A weight and Adam's two moments, of four bytes each (ray_resume.torch_state saves them). Mixed precision saves the
# same: FSDP keeps its weights in four bytes, and computes with copies of two.
BYTES_PER_PARAMETER: Final = 12
_BYTES_PER_GIB: Final = 2**30
_UNITS: Final = {"M": 10**6, "B": 10**9}


class CheckpointEstimate(NamedTuple):
    """The checkpoints of a run, in bytes and seconds; `seconds` is None for a file system of unknown throughput."""

    size: float
    seconds: float | None
    most: int
    """How many there are at most: those that the run keeps, that from which it resumed, and the one being written."""
    interval: float
    capacity: float

    @property
    def fit(self) -> bool:
        """Whether the empty file system has room for them."""
        return self.most * self.size <= self.capacity

    @property
    def share(self) -> float:
        """The part of the time between two checkpoints in which one is written."""
        return (self.seconds or 0.0) / self.interval


def estimate(environment: Environment) -> CheckpointEstimate | None:
    """Return the estimate for `fsx.checkpoints`; None without this key."""
    fsx = environment.fsx
    asked = fsx.checkpoints
    if asked is None:
        return None
    size = float(asked.parameters[:-1]) * _UNITS[asked.parameters[-1]] * BYTES_PER_PARAMETER
    return CheckpointEstimate(
        size=size,
        seconds=None if fsx.existing else size / (fsx.throughput_mbps * 10**6),
        most=asked.keep + 2,
        interval=60.0 * asked.every_minutes,
        capacity=float(fsx.capacity_gib * _BYTES_PER_GIB),
    )
