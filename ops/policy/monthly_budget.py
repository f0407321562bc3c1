"""The budget of a month, as IAM policies name it."""

from config import naming
from ops.policy.arns import Arns


def budget(arns: Arns) -> tuple[str, ...]:
    """Return the ARN of the budget, which has no region; empty if the environment has none."""
    environment = arns.environment
    own = naming.named(environment, "*")
    return (f"arn:aws:budgets::{environment.account}:budget/{own}",) if environment.has_budget else ()
