"""What people may do with the company's KMS key: only through the service that uses it for them."""

from ops.policy.arns import Arns
from ops.policy.statement import Conditions, Statement, actions


def use(arns: Arns, sid: str, service: str, names: str) -> Statement:
    """Return the right to these actions of KMS through one service, and not directly; without a key it is empty."""
    return Statement(sid, actions("kms", names), arns.company_key, through(arns, service))


def through(arns: Arns, service: str, *, grants: bool = False) -> Conditions:
    """Return the condition that the service makes the call; `grants`: and for a resource of its own.

    Source: KMS developer guide, "AWS KMS condition keys": kms:ViaService, kms:GrantIsForAWSResource.
    """
    by = {"StringEquals": {"kms:ViaService": f"{service}.{arns.environment.region}.amazonaws.com"}}
    return by | {"Bool": {"kms:GrantIsForAWSResource": "true"}} if grants else by
