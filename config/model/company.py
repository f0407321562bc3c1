"""The model of what a company demands of all resources in its accounts."""

from typing import Annotated

from pydantic import Field

from config.model.base import Model, Shape

PolicyArn = Annotated[
    str,
    Shape(
        pattern=r"^arn:aws:iam::([0-9]{12}|aws):policy/[A-Za-z0-9_+=,.@/-]+$",
        what="the ARN of a managed policy",
        like="arn:aws:iam::111122223333:policy/Boundary",
        fix="copy it from `aws iam list-policies --scope Local`",
    ),
]
# IAM: CreateRole, Path.
RolePath = Annotated[
    str,
    Shape(
        pattern=r"^/([A-Za-z0-9_+=,.@-]+/)*$",
        what="a path that begins and ends with a slash",
        like="/ml-platform/",
        fix="write a slash at the beginning and one at the end",
    ),
]
# "Tag your AWS resources": limits; characters that all services take.
TagKey = Annotated[
    str,
    Shape(
        pattern=r"^[A-Za-z0-9_.:/=+@ -]{1,128}$",
        what="a tag's key of at most 128 letters, digits, spaces and _.:/=+@-",
        like="CostCenter",
        fix="use other characters",
    ),
]
TagValue = Annotated[
    str,
    Shape(
        pattern=r"^[A-Za-z0-9_.:/=+@ -]{1,256}$",
        what="a tag's value of 1 to 256 letters, digits, spaces and _.:/=+@-",
        like="ml-platform",
        fix="use other characters",
    ),
]
# CDK: `cdk bootstrap --qualifier` takes at most ten letters and digits.
Qualifier = Annotated[
    str,
    Shape(
        pattern=r"^[a-z0-9]{1,10}$",
        what="1 to 10 lowercase letters and digits",
        like="mlplatform",
        fix="copy the qualifier that `cdk bootstrap` was given",
    ),
]


class Company(Model):
    """What your company demands of every resource that a deployment creates."""

    permissions_boundary: PolicyArn | None = Field(
        default=None, description="Permissions boundary of every IAM role. The policy must exist."
    )
    role_path: RolePath = Field(
        default="/",
        description="Path of every IAM role. A change replaces the roles, and a running HyperPod cluster refuses it.",
    )
    tags: dict[TagKey, TagValue] = Field(
        default={}, description="Tags of every resource, also of those that HyperPod and the FSx CSI driver create."
    )
    bootstrap_qualifier: Qualifier | None = Field(
        default=None, description="Qualifier of CDK's bootstrap resources, if your company has its own."
    )
