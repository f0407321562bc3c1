"""Check what Lambda itself does with a function's role: interfaces in a VPC, and the function's log."""

from typing import Any, Final

from embedded_account.context import Account
from embedded_account.services.iam.access import find_role
from embedded_account.services.iam.grants import grants_of
from embedded_account.services.iam.policies import PolicyDecision

_IN_VPC: Final = ("CreateNetworkInterface", "DescribeNetworkInterfaces", "DeleteNetworkInterface")
"""Lambda developer guide, "Required IAM permissions" of functions in a VPC. An interface has no id before it exists."""


def missing_in_vpc(account: Account, role_arn: str) -> str:
    """Return the first action of EC2 that the role lacks for a function in a VPC, or ""."""
    return next((name for name in _IN_VPC if not _allows(account, role_arn, f"ec2:{name}", "*")), "")


def may_log(account: Account, function: Any, stream: str, *, new_group: bool, new_stream: bool) -> bool:
    """Return whether the role of moto's LambdaFunction lets Lambda write the function's log.

    As on AWS, a function without these rights runs, and leaves no log (Lambda developer guide, "Working with logs").
    """
    group = f"arn:aws:logs:{account.region}:{account.account_id}:log-group:{function.logs_group_name}:log-stream:"
    wanted = [("logs:CreateLogGroup", group)] if new_group else []
    wanted += [("logs:CreateLogStream", group)] if new_stream else []
    wanted.append(("logs:PutLogEvents", f"{group}{stream}"))
    return all(_allows(account, function.role, action, resource) for action, resource in wanted)


def _allows(account: Account, role_arn: str, action: str, resource: str) -> bool:
    role = find_role(account, role_arn)
    if role is None:
        return False
    decision = grants_of(account.account_id, role, account.journal).decide(action, resource, {})
    return decision is PolicyDecision.ALLOW
