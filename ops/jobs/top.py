"""Show how far each run is: its step, speed and loss, the age of its last checkpoint, its goodput."""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ops.durations import elapsed
from ops.jobs.run import ExistingRun

Row = dict[str, Any]
"""A run as data for programs. A figure that the run did not print is None."""

_WORDS: Final = ("run", "state")
_FIGURES: Final = ("step", "steps/s", "loss", "last checkpoint", "goodput")


def rows(runs: Callable[[], Iterable[ExistingRun]], cluster: str | None) -> list[Row]:
    """Return the runs that have not ended, of one RayCluster or of all."""
    now = datetime.now(UTC)
    return [_row(run, now) for run in runs() if not run.finished and cluster in (None, run.cluster)]


def table(rows: Iterable[Row]) -> Table:
    """Draw the runs."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in _WORDS:
        drawn.add_column(column, no_wrap=True)
    for column in _FIGURES:
        drawn.add_column(column, no_wrap=True, justify="right")
    for row in rows:
        age, share = row["checkpoint_age_seconds"], row["goodput"]
        drawn.add_row(
            row["run"],
            _shown_state(row),
            "" if row["step"] is None else str(row["step"]),
            _short(row["steps_per_second"]),
            _short(row["loss"]),
            "" if age is None else f"{elapsed(age)} ago",
            "" if share is None else f"{share:.1%}",
        )
    return drawn


def screen(rows: Iterable[Row], since: str) -> Group:
    """Draw the runs, the time and the words `since`, which say for how long they have been watched."""
    return Group(table(rows), Text(f"\n{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC{since}", style="dim"))


def _row(run: ExistingRun, now: datetime) -> Row:
    figures: Mapping[str, float] = run.state.get("figures") or {}
    # A checkpoint may be newer than the figures, which come once per interval.
    step, saved = max(figures.get("step", -1), run.state.get("progress", -1)), run.state.get("progress_at")
    # The clocks of the supervisor's node and of this machine may differ.
    age = max(0.0, (now - datetime.fromisoformat(saved)).total_seconds()) if saved else None
    loss, goodput = figures.get("loss"), figures.get("goodput")
    return {
        "run": run.name,
        "cluster": run.cluster,
        "state": run.phase,
        "reason": str(run.state.get("reason", "")),
        "step": int(step) if step >= 0 else None,
        # A run that waits is not as fast as it was.
        "steps_per_second": figures.get("steps_per_second") if run.phase == "running" else None,
        # JSON has no number for these.
        "loss": str(loss) if loss is not None and not math.isfinite(loss) else loss,
        "checkpoint_age_seconds": None if age is None else round(age),
        "goodput": None if goodput is None else round(goodput / 100, 4),
    }


def _shown_state(row: Row) -> str:
    """Return the state, with the reason if the run is about to train; `ops job list` has the long reasons."""
    starts = row["state"] == "running" and row["step"] is None and row["reason"]
    return f"running: {row['reason']}" if starts else str(row["state"])


def _short(value: float | str | None) -> str:
    return f"{value:.4g}" if isinstance(value, float) else value or ""
