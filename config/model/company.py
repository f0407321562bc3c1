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

# EKS takes a key's ARN only, and HyperPod never changes the key of an instance group: an alias could move.
KeyArn = Annotated[
    str,
    Shape(
        pattern=r"^arn:aws:kms:[a-z0-9-]+:[0-9]{12}:key/"
        r"([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32})$",
        what="the ARN of a KMS key",
        like="arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        fix="copy it from `aws kms describe-key --key-id KEY --query KeyMetadata.Arn`",
        mistakes=(
            (r"arn:aws:kms:.*:alias/.*", "it is the ARN of an alias, which can move to another key"),
            (r"alias/.*", "it is an alias, which can move to another key"),
            (r"[0-9a-f-]{36}|mrk-[0-9a-f]{32}", "it is a key's id without region and account"),
        ),
    ),
]
# {name} at the end: CloudFormation's own names begin with the stack's name, and follow such a pattern by themselves.
NamePattern = Annotated[
    str,
    Shape(
        pattern=r"^([a-z]|\{project\}|\{environment\})([a-z0-9-]|\{project\}|\{environment\})*-\{name\}$",
        what="a pattern of lowercase letters, digits, hyphens, {project} and {environment} that ends in -{name}",
        like="acme-{environment}-{name}",
        fix="begin with a letter or a placeholder, and end with -{name}",
        mistakes=(
            (r"[^A-Z]*[A-Z].*", "it has a capital letter, which S3 does not allow in a bucket's name"),
            (r".*\{(?!(project|environment|name)\}).*", "it has another placeholder than those of the list"),
            (r"(?!.*\{name\}).*", "it lacks {name}, and all names would be the same"),
        ),
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
    kms_key: KeyArn | None = Field(
        default=None,
        description="KMS key that encrypts volumes, file system, buckets, images, logs and Kubernetes secrets. Set it "
        "before the first deployment.",
    )
    name_pattern: NamePattern | None = Field(
        default=None,
        description="Pattern of the names, such as `acme-{environment}-{name}`. Set it before the first deployment.",
    )
