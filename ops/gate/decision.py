"""Decide which changes of a verdict may be deployed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from config.findings import Finding, shown
from ops.gate.approvals import Approval
from ops.review.model import Change, ContentChange, Danger, EnvironmentVerdict, Verdict

LONGEST: Final = timedelta(days=90)
"""How far ahead the last day of an approval may be."""


@dataclass(frozen=True)
class Stop:
    """A change that nobody approved."""

    environment: str
    change: Change
    dangers: tuple[Danger, ...]
    """The dangers without an approval."""


@dataclass(frozen=True)
class Passed:
    """A dangerous change with an approval of all of its dangers."""

    environment: str
    change: Change
    by: tuple[str, ...]
    """The approvals as FILE:LINE, or the key of the environment that confirms it."""


@dataclass(frozen=True)
class Decision:
    """What the gate says: it opens if there is neither a stop nor an error."""

    stops: tuple[Stop, ...]
    passed: tuple[Passed, ...]
    errors: tuple[Finding, ...]
    """Approvals that expired, or that approve no change of this verdict."""
    content: tuple[ContentChange, ...] = ()
    """What owners must read: it stops nothing."""

    @property
    def opens(self) -> bool:
        """Return whether the deployment may go on."""
        return not self.stops and not self.errors


def decide(verdict: Verdict, approvals: Mapping[str, Sequence[Approval]], today: date) -> Decision:
    """Compare each environment's dangerous changes with its approvals, by environment."""
    stops: list[Stop] = []
    passed: list[Passed] = []
    errors: list[Finding] = []
    for environment in verdict.environments:
        given = approvals.get(environment.name, ())
        valid = [each for each in given if today <= each.expires <= today + LONGEST]
        errors += [_expired(each) for each in given if each.expires < today]
        errors += [_too_long(each, today + LONGEST) for each in given if each.expires > today + LONGEST]
        used: set[Approval] = set()
        for change in environment.changes:
            if not (found := change.gated):
                continue
            if change.confirmed_by:
                passed.append(Passed(environment.name, change, (change.confirmed_by,)))
                continue
            matching = [each for each in valid if each.change in found and _is_about(each, change)]
            matching = [each for each in matching if each.digest == change.digest]
            used |= set(matching)
            if left := found - {each.change for each in matching}:
                stops.append(Stop(environment.name, change, tuple(sorted(left))))
            else:
                passed.append(Passed(environment.name, change, tuple(_place(each) for each in matching)))
        errors += [_unused(each, environment) for each in valid if each not in used]
    return Decision(tuple(stops), tuple(passed), tuple(errors), verdict.content)


def _is_about(approval: Approval, change: Change) -> bool:
    """Return whether the approval names the thing that changes."""
    return (approval.stack, approval.resource) == (change.stack, change.resource)


def _place(approval: Approval) -> str:
    return f"{shown(approval.file)}:{approval.line}"


def _expired(approval: Approval) -> Finding:
    fix = "remove it, or let it be reviewed again with a later day"
    return _wrong(approval, f"it expired after {approval.expires}", "a last day that is not past", fix)


def _too_long(approval: Approval, last: date) -> Finding:
    reason = f"it holds for more than {LONGEST.days} days"
    return _wrong(approval, reason, f"a last day up to {last}", "write an earlier day")


def _wrong(approval: Approval, reason: str, allowed: str, fix: str) -> Finding:
    name = f"the approval of {approval.change} for {approval.resource}"
    return Finding("approvals", name, reason, allowed, fix, file=approval.file, line=approval.line)


def _unused(approval: Approval, environment: EnvironmentVerdict) -> Finding:
    others = [
        change.digest
        for change in environment.changes
        if _is_about(approval, change) and approval.change in change.gated and not change.confirmed_by
    ]
    return _wrong(
        approval,
        "it approves another change of this resource" if others else f"no change of {environment.name} needs it",
        f"the digest {' or '.join(others)}" if others else "approvals of what this pull request changes",
        "remove it, or review this change and write its digest" if others else "remove it",
    )
