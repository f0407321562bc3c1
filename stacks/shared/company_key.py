"""The rights of roles on the company's KMS key."""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms


def may_use(key: kms.IKey, service: str, *actions: str) -> iam.PolicyStatement:
    """Return the right to call these actions of KMS through one AWS service of the key's region, and not directly.

    `kms:CreateGrant` is limited to grants that the service makes for its own resources (KMS developer guide,
    kms:GrantIsForAWSResource): it must be the statement's only action, because no other call carries that condition.
    """
    conditions: dict[str, dict[str, str]] = {
        "StringEquals": {"kms:ViaService": f"{service}.{key.env.region}.amazonaws.com"}
    }
    if "kms:CreateGrant" in actions:
        assert len(actions) == 1, actions  # noqa: S101 - a mistake of the code, not of its input
        conditions["Bool"] = {"kms:GrantIsForAWSResource": "true"}
    return iam.PolicyStatement(actions=list(actions), resources=[key.key_arn], conditions=conditions)
