"""The report at the end of a CI run: a line for each tier, and what is wrong."""

from collections.abc import Mapping, Sequence

from green import Green
from schedule import Result
from tiers import Tier


def table(
    asked: Sequence[Tier],
    results: Sequence[Result],
    skipped: Mapping[str, Green],
    *,
    set_up_seconds: float,
    seconds: float,
) -> str:
    """Return a table with a line for each selected tier, and one for the whole."""
    known, shares = {result.tier.name: result for result in results}, _shares(results)
    lines = [f"{'tier':<20}{'seconds':>9}{'CPU s':>9}{'share':>9}{'budget':>9}"]
    lines.append(f"{'set-up':<20}{set_up_seconds:>9,.0f}")
    for tier in asked:
        if result := known.get(tier.name):
            figures = f"{result.seconds:>9,.0f}{result.cpu_seconds:>9,.0f}{shares[tier.name]:>7.1f} %{tier.budget:>7} %"
            lines.append(f"{tier.name:<20}{figures}{'' if result.green else '  FAILED'}")
        elif tier.name in skipped:
            lines.append(f"{tier.name:<20}  unchanged since {skipped[tier.name]}: skipped")
        else:
            lines.append(f"{tier.name:<20}  not started")
    cpu_seconds = sum(result.cpu_seconds for result in results)
    lines.append(f"{'whole':<20}{seconds:>9,.0f}{cpu_seconds:>9,.0f}")
    return "\n".join(lines)


def complaints(tiers: Sequence[Tier], results: Sequence[Result], *, check_shares: bool) -> list[str]:
    """Return the tiers that failed or were not started; if there are none and `check_shares`, exceeded budgets."""
    failed = [
        f"{result.tier.name} failed with exit code {result.exit_code}; its output is above"
        for result in results
        if not result.green
    ]
    if begun := {result.tier.name for result in results}:
        failed += [f"{tier.name} was not started" for tier in tiers if tier.name not in begun]
    elif tiers:
        failed = ["no tier was started"]
    if failed or not check_shares:
        return failed
    return [
        f"{tier.name} took {share:.1f} % of the CPU time of all tiers, its budget is {tier.budget} %: make it cheaper, "
        "or change the budget (.ci/tiers.py, CONTRIBUTING.md) in the same pull request"
        for tier in tiers
        if (share := _shares(results)[tier.name]) > tier.budget
    ]


def _shares(results: Sequence[Result]) -> dict[str, float]:
    """Return each tier's share of the CPU time of these results, in per cent, as the table shows it."""
    whole = sum(result.cpu_seconds for result in results) or 1.0
    # Unrounded, the share of a single tier can exceed 100 %.
    return {result.tier.name: round(100 * result.cpu_seconds / whole, 1) for result in results}
