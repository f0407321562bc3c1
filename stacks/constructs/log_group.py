"""Log groups that are declared, so that they have a retention and go with their stack."""

from typing import Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

RETENTION: Final = logs.RetentionDays.ONE_MONTH


def declared_log_group(scope: Construct, id: str, *, name: str | None = None) -> logs.LogGroup:
    """Log group kept for a month. `name` only where the service dictates it."""
    return logs.LogGroup(scope, id, log_group_name=name, retention=RETENTION, removal_policy=RemovalPolicy.DESTROY)
