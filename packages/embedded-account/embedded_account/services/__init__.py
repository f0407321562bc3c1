"""Extend moto's AWS services: CloudFormation resource models, missing API routes, and AWS's own errors.

Each service is one module (or package) with `install(account)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedded_account.context import Account

SERVICES = (
    "ec2",
    "s3",
    "fsx.api",
    "kms",
    "sns",
    "cloudwatch",
    "budgets",
    "aps",
    "grafana",
    "events",
    "iam.models",
    "iam.oidc",
    "iam.sts",
    "logs",
    "ssm",
    "ecr",
    "cloudtrail",
    "service_quotas",
    "stepfunctions",
    "eks",
    "fsx.driver",
)
"""The services in the order of installation."""


def install(account: "Account") -> None:
    """Install every service."""
    for name in SERVICES:
        import_module(f"{__name__}.{name}").install(account)
