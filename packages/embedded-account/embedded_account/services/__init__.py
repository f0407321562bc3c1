"""AWS services beyond moto: resource models of CloudFormation, missing API routes, AWS's refusals.

One module (or package) per service with `install(account)`.
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
    "events",
    "iam.models",
    "iam.oidc",
    "iam.sts",
    "logs",
    "ssm",
    "stand_in_marker",
    "ecr",
    "cloudtrail",
    "stepfunctions",
    "eks",
    "fsx.driver",
    "image_builder",
)
"""In the order of installation."""


def install(account: "Account") -> None:
    """Install every service."""
    for name in SERVICES:
        import_module(f"{__name__}.{name}").install(account)
