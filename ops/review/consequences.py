"""What a rule finds out about a changed thing."""

from dataclasses import dataclass
from typing import Final

from ops.review.model import Address, Change, Danger, Effect

NO_DANGER: Final[frozenset[Danger]] = frozenset()


@dataclass(frozen=True)
class ReviewFinding:
    """One consequence of a thing's change, as `Change` describes it."""

    what: str
    effect: Effect = Effect.IN_PLACE
    reason: str = ""
    action: str = ""
    dangers: frozenset[Danger] = NO_DANGER
    confirmed_by: str = ""
    fails_unless: str = ""
    lost: int | None = None


@dataclass(frozen=True)
class Thing:
    """What changes: its stack's part, its stable name, its title for readers, and the resources that it is about."""

    stack: str
    resource: str
    title: str
    addresses: tuple[Address, ...] = ()

    def has(self, found: ReviewFinding) -> Change:
        """Return a consequence as a change of this thing."""
        return Change(self.stack, self.resource, self.title, **vars(found), addresses=self.addresses)

    def change(
        self,
        what: str,
        effect: Effect,
        reason: str = "",
        action: str = "",
        *,
        dangers: frozenset[Danger] = NO_DANGER,
        confirmed_by: str = "",
        fails_unless: str = "",
        lost: int | None = None,
    ) -> Change:
        """Return a change of this thing."""
        return self.has(ReviewFinding(what, effect, reason, action, dangers, confirmed_by, fails_unless, lost))


def endangers(danger: Danger, what: str, reason: str = "", effect: Effect = Effect.IN_PLACE) -> ReviewFinding:
    """Return a consequence with one danger."""
    return ReviewFinding(what, effect, reason, dangers=frozenset({danger}))


def unknown(what: str, reason: str) -> ReviewFinding:
    """Return the consequence on something that no rule knows."""
    return endangers(Danger.UNKNOWN, what, reason, Effect.UNKNOWN)


def refused(what: str, reason: str, action: str = "") -> ReviewFinding:
    """Return the consequence on a change that AWS or the API server refuses."""
    return ReviewFinding(what, Effect.REFUSED, reason, action)
