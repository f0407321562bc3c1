"""Write the report of a rehearsal for `make bench`: the time of its steps and of its parts."""

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
    """The seconds of one rehearsal: of its steps in the order of their runs, and of its parts (breakdown.py).

    `cpu` is the processor time of all processes that had ended when the report was written: all of them, except those
    of a kept rehearsal.
    """

    steps: Sequence[Mapping[str, Any]]
    parts: Mapping[str, float]
    cpu: float = 0.0

    def by_step(self) -> dict[str, float]:
        """Return title → seconds; the times of a repeated step are added up."""
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
    """Return the embedded account's journal, also after the account ended; empty if it never started."""
    file = account_directory / "journal.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
