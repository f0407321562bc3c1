"""Imports that need Python 3.11: controllers, the embedded account and the rehearsal, which run on newer Pythons.

Jobs and library run on the image's Python, and so do their tests. Some of these use the other parts beside them.
"""

import contextlib
import datetime
import enum
import importlib
import typing
from collections.abc import Iterator
from typing import Any

_IMPORTED = (
    "controllers.job_decision",
    "controllers.ray_jobs_api",
    "embedded_account.kubernetes.pki",
    "embedded_account.machine.processes",
    "k8s_charts.in_cluster.dashboards",
    "k8s_charts.in_cluster.sources",
    "rehearsal.slurm.cluster",
    "tests.support.slurm",
)


class _StrEnum(str, enum.Enum):
    __str__ = str.__str__

    @staticmethod
    def _generate_next_value_(name: str, *_: Any) -> str:
        return name.lower()


def import_parts() -> None:
    """Import those parts; an older Python has the newer names only for the time of these imports."""
    with contextlib.ExitStack() as lent:
        for module, name, value in (
            (typing, "Self", Any),
            (enum, "StrEnum", _StrEnum),
            (datetime, "UTC", datetime.timezone.utc),
        ):
            lent.enter_context(_lent(module, name, value))
        for part in _IMPORTED:
            importlib.import_module(part)


@contextlib.contextmanager
def _lent(module: Any, name: str, value: Any) -> Iterator[None]:
    if hasattr(module, name):
        yield
        return
    setattr(module, name, value)
    try:
        yield
    finally:
        delattr(module, name)
