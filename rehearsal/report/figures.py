"""What a rehearsal leaves for `make bench`: how long its steps took, and where the time went."""

import json
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal.report.progress import Step

NAME: Final = "report.json"


@dataclass(frozen=True)
class Report:
    """Seconds of one rehearsal: of its steps in the order in which they ran, and of its parts (breakdown.py).

    `cpu` is the processor time of all that had ended when it was written: of everything, unless it was kept running.
    """

    steps: Sequence[Mapping[str, Any]]
    parts: Mapping[str, float]
    cpu: float = 0.0

    def by_step(self) -> dict[str, float]:
        """Seconds by title; steps that ran more than once are added up."""
        found: dict[str, float] = {}
        for step in self.steps:
            found[step["title"]] = found.get(step["title"], 0.0) + step["seconds"]
        return found


def write(directory: Path, steps: Sequence[Step], parts: Mapping[str, float]) -> None:
    """Write the report of a rehearsal into its directory."""
    report = Report(
        [{"title": step.title, "seconds": round(step.seconds, 2)} for step in steps],
        {part: round(seconds, 2) for part, seconds in parts.items()},
        round(_cpu_seconds(), 2),
    )
    (directory / NAME).write_text(json.dumps(asdict(report), indent=2) + "\n")


def _cpu_seconds() -> float:
    used = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def read(file: Path) -> Report:
    """Return the report that `write` wrote."""
    return Report(**json.loads(file.read_text()))


def journal(account_directory: Path) -> list[dict[str, Any]]:
    """What the embedded account wrote down, whether it still answers or not; nothing when it never started."""
    file = account_directory / "journal.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
