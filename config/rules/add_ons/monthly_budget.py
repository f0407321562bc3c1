"""The rules about the budget of a month."""

from collections.abc import Iterator
from typing import Final

from config.estimates.costs import HOURS_PER_MONTH, estimate
from config.facts.regions import regions_with, table_date
from config.model import Environment
from config.rules.network import OTHER_PARTITIONS
from config.rules.parts import groups, is_known
from config.rules.rule import Violation, error, warning

_KEY: Final = "notifications.monthly_budget_usd"


@error("V103")
def budget_in_a_region_that_makes_it(environment: Environment) -> Iterator[Violation]:
    """Require a region whose CloudFormation makes budgets.

    Why: CloudFormation refuses the whole template elsewhere, although AWS Budgets itself has no region.
    Source: github.com/aws-cloudformation/cloudformation-coverage-roadmap, issue 2177.
    Example: region: eu-north-1
    """
    region, known = environment.region, regions_with("budgets")
    if environment.has_budget and region not in known and not region.startswith(OTHER_PARTITIONS):
        reason = f"CloudFormation makes no budgets in {region} as of {table_date()}"
        fix = "remove the key, or add a newer region in config/facts/regions.yaml"
        yield Violation(_KEY, reason, f"the key in {', '.join(sorted(known))}", fix)


@warning("V104")
def budget_covers_the_standing_costs(environment: Environment) -> Iterator[Violation]:
    """Warn of a budget below the standing costs of a month, as far as they are known.

    Why: AWS would call in every month in which all nodes run, although nothing is wrong.
    Source: config/estimates/prices.yaml, a dated table of on-demand prices.
    Example: notifications: {email: ml-platform@example.com, monthly_budget_usd: 1}
    """
    notifications = environment.notifications
    budget = notifications.monthly_budget_usd if notifications else None
    if budget is None or not all(is_known(group) for _, group in groups(environment)):
        return
    month = HOURS_PER_MONTH * sum(line.usd_per_hour or 0.0 for line in estimate(environment))
    if month > budget:
        reason = f"what runs all the time costs about US$ {month:,.0f} per month"
        fix = "raise the budget, plan fewer nodes, or accept the warning if you pause the nodes"
        yield Violation(_KEY, reason, f"at least {month:.0f}", fix)
