"""Make changes from rows of the table of consequences."""

from collections.abc import Mapping
from typing import Any, Final

from handlers.hyperpod_cluster import consequences
from handlers.hyperpod_cluster.consequences import ANY_FIELD, GROUPS, ChangeKind, consequence
from ops.review.consequences import Thing
from ops.review.hyperpod.values import differing, is_intrinsic, sentence, shown
from ops.review.model import Change, Danger, Effect
from ops.review.steps import author

_EFFECTS: Final = {
    consequences.UpdateEffect.IN_PLACE: Effect.IN_PLACE,
    consequences.UpdateEffect.NEW_NODES: Effect.IN_PLACE,
    consequences.UpdateEffect.CREATED: Effect.CREATED,
    consequences.UpdateEffect.REMOVED: Effect.NODES_REMOVED,
    consequences.UpdateEffect.REPLACED: Effect.NODES_REPLACED,
    consequences.UpdateEffect.REFUSED: Effect.REFUSED,
    consequences.UpdateEffect.NOTHING: Effect.NOTHING,
    consequences.UpdateEffect.UNKNOWN: Effect.UNKNOWN,
}


class ClusterPart(Thing):
    """A part of the cluster, whose properties the table of consequences has rows for."""

    def unknown(self, what: str, *further: Danger) -> Change:
        """Return a change that no rule knows."""
        reason = "No rule of this project says what it does."
        return self.change(what, Effect.UNKNOWN, reason, dangers=frozenset({Danger.UNKNOWN, *further}))

    def by_table(self, path: str, before: Any, after: Any) -> Change:
        """Return the change of the property at `path`, with the effect of its row; None stands for an absent value."""
        kind = ChangeKind.ADDED if before is None else ChangeKind.REMOVED if after is None else ChangeKind.CHANGED
        row = consequence(path, kind)
        if row is None and path.startswith(f"{GROUPS}."):
            row = consequence(ANY_FIELD, kind)
        what = f"{path.removeprefix(f'{GROUPS}.')} {_changed(before, after)}"
        if row is None:
            return self.unknown(what)
        reason = sentence(row.reason)
        if row.effect is consequences.UpdateEffect.NEW_NODES:
            reason = f"For nodes created afterwards: {row.reason}."
        dangers = frozenset({Danger.UNKNOWN} if row.effect is consequences.UpdateEffect.UNKNOWN else set())
        action = author(row.action) if row.action else ""
        return self.change(what, _EFFECTS[row.effect], reason, action, dangers=dangers)


def _changed(before: Any, after: Any) -> str:
    """Return both values, or those of the keys that differ; where they differ only in what is cut off, that they do."""
    if (
        isinstance(before, Mapping)
        and isinstance(after, Mapping)
        and not is_intrinsic(before)
        and not is_intrinsic(after)
    ):
        return "; ".join(f"{key} {_changed(before.get(key), after.get(key))}" for key in differing(before, after))
    texts = shown(before), shown(after)
    return "differs" if texts[0] == texts[1] else " → ".join(texts)
