"""Commands measured in turn: CPU and wall time of whole process trees, and their ratios round by round."""

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table


@dataclass(frozen=True)
class MeasuredTime:
    """Seconds that a command took: `cpu` is user and system time of it and of all that it started."""

    cpu: float
    wall: float


Costs = Mapping[str, Sequence[MeasuredTime]]
"""The costs of each command, one per round; every round has a cost of every command."""


def run(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> MeasuredTime:
    """Run a program to its end and return its cost. Raises RuntimeError with its last lines if it fails."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(argv, cwd=cwd, env=env, text=True, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        raise RuntimeError(f"{' '.join(argv)} failed:\n{(result.stdout + result.stderr)[-2000:]}")
    return MeasuredTime(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, time.monotonic() - began)


def with_bytecode(directory: Path) -> dict[str, str]:
    """Return an environment in which Python keeps its bytecode in `directory`, as it does beside a user's files."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return env | {"PYTHONPYCACHEPREFIX": str(directory)}


def in_turn(commands: Mapping[str, Callable[[], MeasuredTime]], rounds: int) -> Costs:
    """Run the commands in turn for `rounds` rounds after one that warms up caches; return the costs."""
    costs: dict[str, list[MeasuredTime]] = {name: [] for name in commands}
    for round_ in range(rounds + 1):
        for name, command in commands.items():
            cost = command()
            if round_:
                costs[name].append(cost)
    return costs


def ratio(costs: Costs, name: str, yardstick: str, seconds: Callable[[MeasuredTime], float]) -> float:
    """Return the median of the rounds' ratios of two commands."""
    pairs = zip(costs[name], costs[yardstick], strict=True)
    return statistics.median(seconds(one) / seconds(other) for one, other in pairs)


def each_more(costs: Costs, more: str, fewer: str, number: int) -> float:
    """Return the CPU time of each of the `number` things that `more` has beyond `fewer`, as a share of `fewer`'s."""
    return (ratio(costs, more, fewer, lambda cost: cost.cpu) - 1) / number


def table(title: str, costs: Costs, yardstick: str) -> Table:
    """Return a table with a row of medians for each command; the ratios are relative to `yardstick`."""
    drawn = Table("command", title=title, box=None, title_justify="left", pad_edge=False)
    for column in ("CPU s", "ratio", "wall s", "ratio"):
        drawn.add_column(column, justify="right")
    for name, rounds in costs.items():
        row = [name]
        for seconds in (lambda cost: cost.cpu, lambda cost: cost.wall):
            median = statistics.median(map(seconds, rounds))
            row += [f"{median:.2f}", f"{ratio(costs, name, yardstick, seconds):.2f}"]
        drawn.add_row(*row)
    return drawn
