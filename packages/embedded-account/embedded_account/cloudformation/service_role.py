"""Check the role that CloudFormation uses for a stack: it must exist and trust CloudFormation.

What the role's policies allow is checked for each resource (`permitted`).
"""

from typing import TYPE_CHECKING

from embedded_account.cloudformation.faults import invalid
from embedded_account.services.iam.access import trusts

if TYPE_CHECKING:
    from embedded_account.context import Account


def require_assumable(account: "Account", arn: str | None) -> None:
    """Raise CloudFormation's error unless it can assume the role. None means the caller's own rights."""
    if arn and not trusts(account, arn, "cloudformation.amazonaws.com"):
        raise invalid(f"Role {arn} is invalid or cannot be assumed")
