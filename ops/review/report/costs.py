"""Say what an environment costs before and after a change, and the difference."""

from collections.abc import Iterator
from typing import Final

from config.estimates.costs import HOURS_PER_MONTH, HOURS_PER_WEEK, SleepingNodes
from ops.review.model import Effect, EnvironmentVerdict, StandingCosts, Verdict

UNCHANGED: Final = "unchanged"
_CENT: Final = 0.005
_NOTHING: Final = StandingCosts(0.0, 0)


def of(environment: EnvironmentVerdict) -> tuple[str, ...]:
    """Return a line for each figure of the environment."""
    return tuple(_lines(environment))


def are_unchanged(environment: EnvironmentVerdict) -> bool:
    """Return whether the environment costs the same before and after, as far as prices are known."""
    before, after = environment.before, environment.after
    if after and before and (before.budget_usd, before.sleeping) != (after.budget_usd, after.sleeping):
        return False
    return of(environment)[0].startswith(UNCHANGED) and (
        before is None or after is None or sorted(before.unpriced) == sorted(after.unpriced)
    )


def total(verdict: Verdict) -> str:
    """Return the difference of several environments' standing costs; empty if none changes."""
    deployed = [each for each in verdict.environments if not _fails(each)]
    pairs = [(each.before or _NOTHING, each.after) for each in deployed if each.after]
    hour = sum(after.usd_per_hour - before.usd_per_hour for before, after in pairs)
    gpus = sum(after.gpus - before.gpus for before, after in pairs)
    if len(verdict.environments) < 2 or (abs(hour) < _CENT and not gpus):
        return ""
    named = (
        "All environments" if len(deployed) == len(verdict.environments) else "All environments that can be deployed"
    )
    return f"{named}: {_signed(hour)} per hour, {_signed(hour, month=True)} per month, {gpus:+} GPUs."


def notes(verdict: Verdict) -> Iterator[str]:
    """Yield what the figures are, and what they lack; nothing if no environment shows figures."""
    shown = [each for each in verdict.environments if each.changes and not _fails(each)]
    bills = [bill for each in shown for bill in (each.before, each.after) if bill]
    if not bills:
        return
    yield f"Costs are on-demand list prices of what runs all the time; a month has {HOURS_PER_MONTH} hours."
    if any(bill.sleeping for bill in bills):
        yield "Groups that sleep count with all of their nodes."
    if unpriced := sorted({each for bill in bills for each in bill.unpriced}):
        yield f"Not in these figures, because the price table lacks them: {', '.join(unpriced)}."


def _fails(environment: EnvironmentVerdict) -> bool:
    """Return whether a deployment fails in any case: nobody pays for what it would have brought."""
    return any(change.effect is Effect.REFUSED for change in environment.changes)


def _lines(environment: EnvironmentVerdict) -> Iterator[str]:
    before, after = environment.before, environment.after
    if after is None:
        yield f"{UNCHANGED} until its stacks are destroyed" if environment.changes else UNCHANGED
        return
    if _fails(environment):
        yield "not shown: the deployment fails as it stands"
        yield from _budget(before.budget_usd if before else None, after.budget_usd)
        return
    old = before or _NOTHING
    hour = after.usd_per_hour - old.usd_per_hour
    if before and abs(hour) < _CENT and old.gpus == after.gpus:
        month = _price(after.usd_per_hour, month=True)
        yield f"{UNCHANGED}: {_price(after.usd_per_hour)} per hour, {month} per month, {after.gpus} GPUs"
    else:
        yield f"{_signed(hour)} per hour ({_price(old.usd_per_hour)} → {_price(after.usd_per_hour)})"
        months = [_price(bill.usd_per_hour, month=True) for bill in (old, after)]
        yield f"{_signed(hour, month=True)} per month ({' → '.join(months)})"
        if after.gpus != old.gpus:
            gpus = after.gpus - old.gpus
            yield f"{gpus:+} GPUs ({old.gpus} → {after.gpus}), {gpus * HOURS_PER_MONTH:+,} GPU-hours per month"
    if (kept := after.kept_usd_per_hour) >= _CENT:
        prices = f"{_price(kept)} of it per hour, {_price(kept, month=True)} per month"
        yield f"{prices}, for what leaves its stack and stays"
    yield from _sleep(environment, old, after)
    yield from _budget(old.budget_usd, after.budget_usd)


def _sleep(environment: EnvironmentVerdict, old: StandingCosts, new: StandingCosts) -> Iterator[str]:
    """Yield what it means for the bill that groups may sleep, no longer do, or do by other rules."""
    before, after = ({each.group: each for each in bill.sleeping} for bill in (old, new))
    for name, group in after.items():
        if name not in before:
            yield f"{name} may sleep: {_by_use(group)}"
        elif before[name] != group:
            yield f"{name} sleeps by other rules: {_by_use(group)}. Before: {_by_use(before[name])}"
    stay = {row.name for row in environment.groups if row.after}
    for name in stay & before.keys() - after.keys():
        yield f"{name} no longer sleeps: all of its nodes cost at all times. Before: {_by_use(before[name])}"


def _by_use(group: SleepingNodes) -> str:
    """Say what a group costs that sleeps. How much it will be used, no template knows."""
    least, most = (f"{usd:,.0f}" for usd in (group.least_per_month, group.awake * HOURS_PER_MONTH))
    if group.hours_per_week:
        hours = f"{group.hours_per_week:g} of {HOURS_PER_WEEK} hours a week"
        return (
            f"awake in its hours only ({hours}), US$ {least} instead of {most} per month; in use outside of them, more"
        )
    return f"US$ {least} per month if nothing uses it, {most} if something always does"


def _budget(old: float | None, new: float | None) -> Iterator[str]:
    """Yield what happens to the budget of a month, which calls somebody when it is spent."""
    if old is None and new is not None:
        yield f"budget added: US$ {new:,.0f} per month"
    elif old is not None and new is None:
        yield f"budget removed: nobody is called any more at US$ {old:,.0f} per month"
    elif old is not None and new is not None and old != new:
        yield f"budget {'raised' if new > old else 'lowered'}: US$ {old:,.0f} → US$ {new:,.0f} per month"


def _signed(usd_per_hour: float, *, month: bool = False) -> str:
    return f"{'-' if usd_per_hour < 0 else '+'}{_price(abs(usd_per_hour), month=month)}"


def _price(usd_per_hour: float, *, month: bool = False) -> str:
    return f"US$ {usd_per_hour * HOURS_PER_MONTH:,.0f}" if month else f"US$ {usd_per_hour:,.2f}"
