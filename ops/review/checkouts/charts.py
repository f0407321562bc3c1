"""Require the Helm charts of both checkouts before their syntheses, which would fail one after the other."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from config.facts import charts_lock
from config.reading import strict_yaml
from ops.review.checkouts.cdk import ReviewError
from ops.review.checkouts.inputs import ENVIRONMENTS
from ops.review.checkouts.syntheses import Checkouts

_LOCK: Final = Path("config") / "facts" / "charts.lock.yaml"
# The context that replaces the charts by a rehearsal's stand-ins.
_CONTEXT: Final = "charts"


def require(checkouts: Checkouts, names: Sequence[str]) -> None:
    """Raise ReviewError if the cache lacks charts of a checkout whose environments will be synthesised."""
    if _CONTEXT in checkouts.context or os.environ.get(charts_lock.STAND_IN_VARIABLE):
        return
    # An assembly that was handed over has its charts.
    synthesised = (checkouts.base,) if checkouts.handed_over else (checkouts.base, checkouts.head)
    missing = {side: _missing(side) for side in synthesised if _takes_charts(side, names)}
    if not any(missing.values()):
        return
    charts = dict.fromkeys(f"{chart.name} {chart.version}" for side in missing.values() for chart in side)
    # One fetch serves both sides if their locks agree.
    of_head = missing.get(checkouts.head, [])
    sides = [side for side, found in missing.items() if found and (side == checkouts.head or set(found) - set(of_head))]
    fix = " and ".join(f"`cd {side} && .venv/bin/ops charts fetch`" for side in sides)
    named = f"Helm charts are missing or altered in {charts_lock.cache_directory()}: {', '.join(charts)}"
    raise ReviewError(f"{named}. Fix: run {fix}")


def _missing(checkout: Path) -> list[charts_lock.Archive | charts_lock.GitFolder]:
    with suppress(FileNotFoundError, ValidationError):
        return charts_lock.missing(charts_lock.locked(checkout / _LOCK))
    # A lock of another version may have another form: only that checkout can read it.
    return []


def _takes_charts(checkout: Path, names: Sequence[str]) -> bool:
    """Return whether EKS orchestrates one of these environments of the checkout."""
    files = [file for name in names if (file := checkout / ENVIRONMENTS / f"{name}.yaml").is_file()]
    return any("slurm" not in _keys(file) for file in files)


def _keys(file: Path) -> set[str]:
    with suppress(strict_yaml.UnreadableFileError):
        return set(strict_yaml.read(file).values)
    return set()
