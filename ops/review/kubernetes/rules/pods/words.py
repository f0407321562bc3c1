"""Say in words what differs in a pod template."""

from collections.abc import Sequence
from typing import Final

from ops.review.kubernetes.deltas import Delta, shown

_RESOURCES: Final = {"vpc.amazonaws.com/efa": "EFA interfaces", "nvidia.com/gpu": "GPUs", "cpu": "CPUs"}
_CONTAINER: Final = ("template", "spec", "containers")
_AMOUNTS: Final = ("limits", "requests")


def in_words(changed: Sequence[Delta]) -> list[str]:
    """Return the deltas of a template without its outer levels; equal limits and requests are one."""
    grouped: dict[str, list[str]] = {}
    for each in changed:
        path = each.path[4:] if each.path[:3] == _CONTAINER and len(each.path) > 4 else each.path
        path = path[2:] if path[:2] == _CONTAINER[:2] and len(path) > 2 else path
        amount = ""
        if len(path) == 3 and path[0] == "resources" and path[1] in _AMOUNTS:
            amount, path = path[1], (f"{_RESOURCES.get(path[2], path[2])} per pod",)
        grouped.setdefault(f"{'.'.join(path)} {shown(each.before)} → {shown(each.after)}", []).append(amount)
    return [
        f"{words} ({amounts[0]} only)" if len(amounts) == 1 and amounts[0] else words
        for words, amounts in grouped.items()
    ]
