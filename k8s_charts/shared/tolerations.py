"""Tolerations of an instance group's own taints."""

from collections.abc import Iterable
from typing import Any

from config.model import Taint


def tolerations(taints: Iterable[Taint]) -> list[dict[str, Any]]:
    """Return a toleration of exactly each taint, without repeats."""
    return [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in dict.fromkeys(taints)
    ]
