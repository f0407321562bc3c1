"""Which changes the gate stops."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ops.gate.approvals import Approval
from ops.gate.decision import decide
from ops.review.model import Change, Danger, Effect, EnvironmentVerdict, Verdict

TODAY = date(2026, 12, 1)
FILE = Path("dev.yaml")
DIGEST = "5d41" * 16


def change(
    *dangers: Danger, effect: Effect = Effect.IN_PLACE, resource: str = "FileSystem", confirmed_by: str = ""
) -> Change:
    found = frozenset(dangers)
    return Change(
        "storage", resource, "file system", "a → b", effect, dangers=found, confirmed_by=confirmed_by, digest=DIGEST
    )


def verdict(*changes: Change, name: str = "dev") -> Verdict:
    return Verdict((EnvironmentVerdict(name, changes),))


def approval(danger: Danger = Danger.DATA_LOSS, resource: str = "FileSystem", **more: Any) -> Approval:
    found = Approval("storage", resource, danger, DIGEST, "reason", TODAY, FILE, 2)
    return replace(found, **more)


def test_harmless_changes_pass() -> None:
    assert decide(verdict(change(), change(effect=Effect.REFUSED)), {}, TODAY).opens


@pytest.mark.parametrize("danger", Danger)
def test_each_danger_stops_without_an_approval(danger: Danger) -> None:
    decision = decide(verdict(change(danger)), {}, TODAY)
    assert not decision.opens
    assert [stop.dangers for stop in decision.stops] == [(danger,)]


def test_unknown_effect_stops_even_without_a_danger() -> None:
    [stop] = decide(verdict(change(effect=Effect.UNKNOWN)), {}, TODAY).stops
    assert stop.dangers == (Danger.UNKNOWN,)


def test_change_passes_with_an_approval_of_each_of_its_dangers() -> None:
    both = verdict(change(Danger.DATA_LOSS, Danger.LOWER_PROTECTION))
    [stop] = decide(both, {"dev": [approval()]}, TODAY).stops
    assert stop.dangers == (Danger.LOWER_PROTECTION,)
    decision = decide(both, {"dev": [approval(), approval(Danger.LOWER_PROTECTION)]}, TODAY)
    assert decision.opens
    assert [passed.by for passed in decision.passed] == [("dev.yaml:2", "dev.yaml:2")]


@pytest.mark.parametrize("name", ["prod", "dev"])
def test_approval_of_another_environment_or_resource_approves_nothing(name: str) -> None:
    given = {name: [approval(resource="FileSystem" if name == "prod" else "Bucket")]}
    assert decide(verdict(change(Danger.DATA_LOSS)), given, TODAY).stops


def test_approval_of_another_stack_approves_nothing() -> None:
    """Two stacks may have resources of one name."""
    decision = decide(verdict(change(Danger.DATA_LOSS)), {"dev": [approval(stack="platform")]}, TODAY)
    assert decision.stops
    assert "no change of dev needs it" in str(decision.errors[0])


def test_approval_of_an_earlier_change_of_the_resource_approves_nothing_and_the_error_says_so() -> None:
    decision = decide(verdict(change(Danger.DATA_LOSS)), {"dev": [approval(digest="0" * 64)]}, TODAY)
    assert decision.stops
    [error] = map(str, decision.errors)
    assert "is invalid: it approves another change of this resource" in error
    assert f"Allowed: the digest {DIGEST}. Fix: remove it, or review this change and write its digest" in error


def test_changes_of_one_resource_are_approved_one_by_one() -> None:
    other = replace(change(Danger.DATA_LOSS), digest="0" * 64)
    both = verdict(change(Danger.DATA_LOSS), other)
    [stop] = decide(both, {"dev": [approval()]}, TODAY).stops
    assert stop.change.digest == other.digest
    assert decide(both, {"dev": [approval(), approval(digest=other.digest)]}, TODAY).opens


def test_approval_that_nothing_needs_is_an_error() -> None:
    decision = decide(verdict(change()), {"dev": [approval()]}, TODAY)
    assert not decision.opens
    assert "no change of dev needs it" in str(decision.errors[0])


def test_approval_holds_on_its_last_day_and_not_after_it() -> None:
    dangerous, given = verdict(change(Danger.DATA_LOSS)), {"dev": [approval()]}
    assert decide(dangerous, given, TODAY).opens
    decision = decide(dangerous, given, date(2026, 12, 2))
    assert decision.stops
    assert "it expired after 2026-12-01" in str(decision.errors[0])


def test_approval_holds_at_most_90_days_ahead() -> None:
    dangerous, given = verdict(change(Danger.DATA_LOSS)), {"dev": [approval()]}
    assert decide(dangerous, given, date(2026, 9, 2)).opens
    decision = decide(dangerous, given, date(2026, 9, 1))
    assert decision.stops
    assert "it holds for more than 90 days. Allowed: a last day up to 2026-11-30" in str(decision.errors[0])


def test_what_the_environment_confirms_needs_no_approval_and_takes_none() -> None:
    confirmed = verdict(change(Danger.GROUP_REMOVED, confirmed_by="hyperpod.confirm_group_removal"))
    assert decide(confirmed, {}, TODAY).opens
    twice = decide(confirmed, {"dev": [approval(Danger.GROUP_REMOVED)]}, TODAY)
    assert not twice.opens, "an approval that is not needed stays an error"
