"""A small, strict CloudFormation over moto's resource models."""

from rehearsal.account.context import Account


def install(account: Account) -> None:
    """Replace moto's execution of stacks and change sets by this engine."""
