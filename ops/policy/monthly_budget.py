"""The budget of a month, as IAM policies name it."""

from ops.policy import generated
from ops.policy.arns import Arns


def budget(arns: Arns) -> tuple[str, ...]:
    """Return the ARN of the budget, which has no region; empty if the environment has none."""
    environment = arns.environment
    names = generated.names(environment, "budgets") if environment.has_budget else ()
    return tuple(f"arn:aws:budgets::{environment.account}:budget/{name}" for name in names)
