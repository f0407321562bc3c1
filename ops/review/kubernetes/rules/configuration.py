"""Review ConfigMaps and Secrets."""

import difflib
from collections.abc import Iterator
from typing import Final

from ops.review.consequences import ReviewFinding, endangers, refused
from ops.review.kubernetes.deltas import at, deltas, summary
from ops.review.kubernetes.objects import Body, is_placeholder
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.monitoring import lost
from ops.review.model import Danger, Effect
from ops.review.scripts import dangerous_lines
from ops.review.steps import author

_DATA: Final = ("data", "binaryData")


def review_config_map(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield which texts of a ConfigMap differ, and what newly added lines may do."""
    old, new = at(before, "data") or {}, at(after, "data") or {}
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    for name in names:
        if lines := dangerous_lines(str(old.get(name, "")), str(new.get(name, ""))):
            yield endangers(Danger.RUNS_CODE, f"{name} runs: {summary(lines)}")
        if name in old and (gone := list(lost(str(old[name]), str(new.get(name, ""))))):
            yield endangers(Danger.LOWER_PROTECTION, summary(gone), "Nobody is told, or nothing is kept, as before.")
    if before is None:
        return
    if before.get("immutable") and any(at(before, key) != at(after, key) for key in _DATA):
        yield refused(summary(names), "The ConfigMap is immutable.", author("rename the ConfigMap"))
    elif names:
        counts = [f"{name} {_lines(str(old.get(name, '')), str(new.get(name, '')))}" for name in names]
        why = "Pods with the hash of the text restart; others read it when they start."
        yield ReviewFinding(summary(counts), Effect.IN_PLACE, why)
    if at(before, "binaryData") != at(after, "binaryData"):
        yield endangers(Danger.UNKNOWN, "binaryData", "No rule reads binary data.", Effect.UNKNOWN)


def review_secret(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield a Secret's change; a value in a template is no secret."""
    for key in ("data", "stringData"):
        for each in deltas(at(before, key) or {}, at(after, key) or {}):
            name = f"{key}.{each.path[-1] if each.path else ''}"
            if each.after is not None and not is_placeholder(each.after):
                why = "Everyone who reads the template reads it."
                yield endangers(Danger.LOWER_PROTECTION, f"{name} has a plain value", why)
            else:
                yield ReviewFinding(f"{name} changed", Effect.IN_PLACE, "It holds for new pods.")
    if before is not None and before.get("immutable") and any(at(before, key) != at(after, key) for key in _DATA):
        yield refused("data", "The Secret is immutable.", author("rename the Secret"))


def _lines(before: str, after: str) -> str:
    changed = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0))[2:]
    return f"+{sum(line[0] == '+' for line in changed)} -{sum(line[0] == '-' for line in changed)} lines"
